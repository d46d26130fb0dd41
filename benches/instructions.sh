#!/usr/bin/env bash
# Instructions per operation of the pure benches, counted by valgrind: benches/instructions.sh [CASE…]
# Each case runs 50 and 250 times, and the difference is divided by 200: start and end cost nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "not run: valgrind is missing"; exit 0; }

counted() { # BENCH CASE TIMES
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" --once "$2" "$3" 2>&1 >/dev/null |
    sed -n 's/.*Collected : //p'
}

for bench in envelope names; do
  binary=$(cargo bench --quiet --bench "$bench" --no-run --message-format=json 2>/dev/null |
    sed -n "s/.*\"name\":\"$bench\".*\"executable\":\"\([^\"]*\)\".*/\1/p")
  "$binary" --list | while IFS= read -r name; do
    [ $# -eq 0 ] || [[ " $* " == *"$name"* ]] || continue
    few=$(counted "$binary" "$name" 50)
    many=$(counted "$binary" "$name" 250)
    printf '%-46s%12d instructions\n' "$name" $(((many - few) / 200))
  done
done
