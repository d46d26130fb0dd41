#!/usr/bin/env bash
# Instructions per operation of the pure parts, counted by valgrind: the same for the same build, whatever the machine is doing.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "not run: valgrind is missing (Debian's package valgrind)"; exit 0; }

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# The program of a bench, built as for a measurement.
program() {
  cargo bench --bench "$1" --no-run --message-format=json 2>/dev/null |
    python3 -c 'import json, sys; print(next(m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable")))'
}

# Instructions that a run of so many operations takes.
count() {
  valgrind --tool=callgrind --callgrind-out-file="$out/out" "$1" --once "$2" "$3" 2>&1 | awk '/Collected/ { print $NF }'
}

printf '%-46s %14s\n' operation instructions
for bench in envelope names; do
  binary=$(program "$bench")
  "$binary" --list | while read -r case; do
    # What starting takes is in both counts.
    few=$(count "$binary" "$case" 10)
    many=$(count "$binary" "$case" 110)
    printf '%-46s %14d\n' "$case" $(((many - few) / 100))
  done
done
