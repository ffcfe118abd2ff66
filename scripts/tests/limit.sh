#!/usr/bin/env bash
# Tests scripts/limit.py: it names the test that exceeds its time limit, kills its processes, and changes nothing else.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
LIMIT=$POOLWRIGHT_ROOT/scripts/limit.py

# expect STATUS PATTERN WHAT COMMAND...
expect() {
    local wanted=$1 pattern=$2 what=$3 status=0
    shift 3
    "$@" >"$SCRATCH/out" 2>&1 || status=$?
    { [ $status = "$wanted" ] && grep -qE -- "$pattern" "$SCRATCH/out"; } ||
        die 1 "$what: status $status, and printed: $(cat "$SCRATCH/out")"
}

# Prints what the Rust test harness prints for three tests, of which the second hangs with a child process.
cat >"$SCRATCH/hangs" <<EOF2
#!/bin/sh
echo 'test quick ... ok'
echo 'test slow::but_ends has been running for over 60 seconds'
echo 'test hangs has been running for over 60 seconds'
echo 'test slow::but_ends ... ok'
sleep 1000 &
echo \$! >"$SCRATCH/below"
wait
EOF2
chmod +x "$SCRATCH/hangs"
expect 124 '^hangs: time limit exceeded: hangs ran for over 61 seconds$' "a test that hangs" \
    "$LIMIT" --each 61 --program 100 "$SCRATCH/hangs"
# The child must have ended; it can still be a zombie.
grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "$SCRATCH/below")/status" &&
    die 1 "a child process of the test that hangs is still running"
expect 124 '^hangs: time limit of 1 seconds exceeded; running for over 60 seconds: hangs$' "a program that hangs" \
    "$LIMIT" --each 900 --program 1 "$SCRATCH/hangs"

# Prints what the harness prints with --show-output for a test that passed and one that was skipped.
cat >"$SCRATCH/skips" <<EOF2
#!/bin/sh
printf 'test a::passes ... ok\ntest b::needs_root ... ok\n\nsuccesses:\n\n---- a::passes stdout ----\nits output\n\n'
printf -- '---- b::needs_root stdout ----\nskipped: only root can\n\n\nsuccesses:\n    a::passes\n    b::needs_root\n\ntest result: ok. 2 passed\n'
EOF2
chmod +x "$SCRATCH/skips"
POOLWRIGHT_SKIPPED=$SCRATCH/list expect 0 '^skipped: b::needs_root: only root can$' "a skipped test" "$LIMIT" "$SCRATCH/skips"
[ "$(grep -vc '^skipped' "$SCRATCH/out")" = 4 ] || die 1 "the output of tests that passed is not left out: $(cat "$SCRATCH/out")"
[ "$(cat "$SCRATCH/list")" = "skipped: b::needs_root: only root can" ] || die 1 "the list of skipped tests: $(cat "$SCRATCH/list")"
CARGO_TARGET_X_RUNNER=y expect 1 . "the runner's variable" "$LIMIT" sh -c 'echo checked; env | grep -q ^CARGO_TARGET_X_RUNNER='
expect 0 '^out$' "a program that ends" "$LIMIT" sh -c 'echo out'
expect 7 '^err$' "a status" "$LIMIT" sh -c 'echo err >&2; exit 7'
expect 137 . "a killed program" "$LIMIT" sh -c 'echo killed; kill -9 $$'
# A process that a test leaves behind holds the output open.
# shellcheck disable=SC2016 # the inner shell expands it
expect 3 '^left$' "a process left behind" "$LIMIT" --program 500 sh -c 'sleep 600 & echo $! >"$0"; echo left; exit 3' "$SCRATCH/left"
kill "$(cat "$SCRATCH/left")" 2>/dev/null || true
