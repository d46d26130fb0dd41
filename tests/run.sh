#!/usr/bin/env bash
# The whole test suite, or parts of it: tests/run.sh [--quick | --ci | STAGE…]. Stages print their time; all run, whatever fails.
set -uo pipefail
cd "$(dirname "$0")/.."

ALL=(install build fmt clippy nextest sdk conformance status deploy cluster)
NOT_RUN=77 # a stage's exit code: it could not run here, and said why
CACHE=$PWD/tests/.cache
LOCKED=()
[ "${CI_MODE:=}" ] && LOCKED=(--locked)
export CI_MODE PATH="$CACHE/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
export GATEHOUSE="${GATEHOUSE:-${CARGO_TARGET_DIR:-$PWD/target}/ci/gatehouse}"

not_run() { echo "not run: $*"; exit $NOT_RUN; }

# A command, from the distribution's package of this name if it is missing.
need() {
  command -v "$1" >/dev/null && return
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || not_run "$1 is missing"
  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$2" >/dev/null || not_run "apt cannot install $2"
}

stage_install() {
  local want
  want=$(cat tests/package-lock.json tests/requirements*.txt | sha256sum)
  if [ "$(cat "$CACHE/installed" 2>/dev/null)" = "$want" ] && [ -d tests/node_modules ]; then echo "up to date"; return; fi
  need npm npm
  need python3 python3
  python3 -c 'import ensurepip' 2>/dev/null || need ensurepip python3-venv
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || not_run "python3 is older than 3.11"
  npm ci --prefix tests --no-audit --no-fund --ignore-scripts --loglevel=error || not_run "npm cannot install tests/package-lock.json"
  venv venv tests/requirements.txt
  venv venv1 tests/requirements-v1.txt
  echo "$want" >"$CACHE/installed"
}

# A virtual environment of its own for each major version of the Python SDK.
venv() {
  python3 -m venv "$CACHE/$1"
  "$CACHE/$1/bin/pip" install --quiet --requirement "$2" || not_run "pip cannot install $2"
}

stage_build() { cargo build --profile ci --bins --tests "${LOCKED[@]}"; }

stage_fmt() { cargo fmt --check; }

# The profile of the build: build scripts and procedural macros are done already.
stage_clippy() { cargo clippy --all-targets --profile ci "${LOCKED[@]}" -- -D warnings; }

stage_nextest() {
  if ! cargo nextest --version >/dev/null 2>&1; then
    echo "installing cargo-nextest"
    cargo install cargo-nextest --locked --quiet --debug --root "$CACHE" || echo "cargo-nextest cannot be installed: cargo test instead"
  fi
  if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --cargo-profile ci --config-file tests/nextest.toml --no-fail-fast "${LOCKED[@]}"
  else
    cargo test --profile ci --no-fail-fast --lib --bins --tests "${LOCKED[@]}"
  fi
}

stage_sdk() {
  installed
  fixtures
  local failed=0 script
  for script in run changes auth matrix contract; do "$CACHE/venv/bin/python" "tests/sdk/$script.py" || failed=1; done
  return $failed
}

stage_conformance() {
  installed
  fixtures
  local failed=0 script
  for script in run auth; do "$CACHE/venv/bin/python" "tests/conformance/$script.py" || failed=1; done
  return $failed
}

stage_status() {
  installed
  need chromium chromium
  "$CACHE/venv/bin/python" tests/status/run.py
}

stage_deploy() {
  installed
  need promtool prometheus
  need nginx nginx-light
  need openssl openssl
  "$CACHE/venv/bin/python" tests/deploy/run.py
}

stage_cluster() {
  [ -x "$GATEHOUSE" ] || not_run "$GATEHOUSE is missing: tests/run.sh build"
  need redis-server redis-server
  need nginx nginx-light
  need openssl openssl
  python3 tests/cluster/run.py
}

# The official Rust SDK's server and client, in a workspace of their own: built once.
fixtures() {
  CARGO_TARGET_DIR="$CACHE/target-fixture" cargo build --locked --manifest-path tests/fixtures/conformance-server/Cargo.toml
}

installed() {
  [ -e "$CACHE/installed" ] || not_run "tests/run.sh install has not succeeded"
  [ -x "$GATEHOUSE" ] || not_run "$GATEHOUSE is missing: tests/run.sh build"
}

# Runs a stage in a process group of its own, so that all it started can be ended with it and nothing else.
run_stage() {
  local name=$1 start=$SECONDS code log out
  echo "== $name"
  exec {out}> >(exec tee "$CACHE/logs/$name.log")
  log=$!
  setsid bash tests/run.sh --stage "$name" >&"$out" 2>&1 &
  group=$!
  wait "$group"
  code=$?
  if alive "$group"; then
    echo "$name left processes running" >&"$out"
    kill -TERM -- "-$group"
    code=1
  fi
  group=
  exec {out}>&-
  wait "$log"
  count "$name" "$code"
  times+=("$(printf '%-12s %-8s %5d s' "$name" "$result" $((SECONDS - start)))")
  echo "== $name: $result, $((SECONDS - start)) s"
}

# Whether a process of this group has not ended yet.
alive() {
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v group="$1" '{ sub(/^.*\) /, "") } $3 == group && $1 != "Z" { found = 1 } END { exit !found }'
}

# Adds up what a stage reports as `N passed` and `N failed`; a stage that reports nothing is one test.
count() {
  local ok bad lines
  # nextest's own sum counts a test once; what it shows of a first try does not count beside it.
  lines=$(grep -E '^ *Summary' "$CACHE/logs/$1.log" || grep -E '^ *(test result:|[0-9]+ passed, [0-9]+ failed$)' "$CACHE/logs/$1.log")
  ok=$(grep -oE '[0-9]+ passed' <<<"$lines" | awk '{ n += $1 } END { print n + 0 }')
  bad=$(grep -oE '[0-9]+ (failed|timed out)' <<<"$lines" | awk '{ n += $1 } END { print n + 0 }')
  case $2 in
    0) result=passed; [ "$ok" = 0 ] && ok=1 ;;
    "$NOT_RUN") result="not run"; ok=0; bad=0; [ "$CI_MODE" ] && bad=1 ;;
    *) result=FAILED; [ "$bad" = 0 ] && bad=1 ;;
  esac
  passed=$((passed + ok)) failed=$((failed + bad))
}

main() {
  local stages=("${ALL[@]}") stage
  case ${1:-} in
    --stage) set -e; "stage_$2"; exit ;;
    --quick) stages=(fmt clippy nextest) ;;
    --ci) CI_MODE=1 ;;
    -*) echo "usage: tests/run.sh [--quick | --ci | STAGE…], stages: ${ALL[*]}"; exit 2 ;;
    ?*) stages=("$@") ;;
  esac
  for stage in "${stages[@]}"; do
    declare -F "stage_$stage" >/dev/null || { echo "no stage \`$stage\`; there are: ${ALL[*]}"; exit 2; }
  done
  mkdir -p "$CACHE/logs"
  passed=0 failed=0 times=() group=
  trap '[ "$group" ] && kill -TERM -- "-$group" 2>/dev/null && wait "$group"' EXIT
  trap 'exit 130' INT TERM
  for stage in "${stages[@]}"; do run_stage "$stage"; done
  printf '%s\n' "" "${times[@]}" "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}

main "$@"
