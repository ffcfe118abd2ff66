#!/usr/bin/env bash
# Runs all tests that need no kernel ZFS (`make test`).
#
# usage: scripts/test.sh [--no-install | --scripts]
#
#   --scripts  runs only the scripts of scripts/tests, with the programs in target/test/release as they are
#
# Installs the packages of the tests, builds into target/test (hardly optimized, to save time), and runs the scripts of scripts/tests
# beside the tests of the workspace. The output of the scripts follows at the end. Each test has a time limit (scripts/limit.py), which
# reports a test that exceeds it. A test that needs a privilege that this user lacks (recording with eBPF needs root) is skipped; the
# list at the end says why.
#
# Exit status: 0 all passed, 1 a test failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# Time limit of a script of scripts/tests, in seconds.
SCRIPT_LIMIT=1200

script_tests() {
    local test failed=() began
    for test in "$POOLWRIGHT_ROOT"/scripts/tests/*.sh; do
        say "-- ${test#"$POOLWRIGHT_ROOT/"}"
        began=$SECONDS
        limited "$SCRIPT_LIMIT" "$test" || failed+=("${test##*/}")
        say "-- ${test#"$POOLWRIGHT_ROOT/"}: $((SECONDS - began)) s"
    done
    [ ${#failed[@]} -eq 0 ] || die 1 "failed: ${failed[*]} (their messages are above)"
}

SCRIPTS_LOG=
SCRIPTS_PID=

# Many of the scripts wait most of the time, so they run beside the tests of the workspace.
begin_script_tests() {
    SCRIPTS_LOG=$(mktemp "${TMPDIR:-/tmp}/poolwright-script-tests.XXXXXX")
    trap end_script_tests EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    setsid "$POOLWRIGHT_ROOT/scripts/test.sh" --scripts </dev/null >"$SCRIPTS_LOG" 2>&1 &
    SCRIPTS_PID=$!
}

# Prints what the scripts have printed; its status is theirs.
wait_for_script_tests() {
    local status=0
    wait "$SCRIPTS_PID" || status=$?
    SCRIPTS_PID=
    cat "$SCRIPTS_LOG"
    return $status
}

# If the tests of the workspace have failed, the output of the scripts until then follows too.
end_script_tests() {
    local status=$?
    if [ -n "$SCRIPTS_PID" ]; then
        end_group "$SCRIPTS_PID" 30
        [ $status -ge 128 ] || { say "== The tests of the scripts, until then"; cat "$SCRIPTS_LOG"; }
    fi
    rm -f -- "$SCRIPTS_LOG" ${POOLWRIGHT_SKIPPED:+"$POOLWRIGHT_SKIPPED"}
}

# Property tests use the same cases in each run, so that a failure belongs to the change under test. Set another seed to test
# other cases.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

# limited_tests ARGUMENTS...: `cargo test`, with all test programs even if one fails. Cargo starts each through limit.py, which
# reports and kills a test that hangs.
limited_tests() {
    local runner
    runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    env "$runner=$POOLWRIGHT_ROOT/scripts/limit.py" cargo test --release --locked --no-fail-fast "$@" -- --show-output
}

# Tests with injected I/O errors and simulated power cuts, which need a feature that shipped programs lack. With --workspace, cargo
# uses the dependencies as they are built already; with -p, it would build those again whose features then differ.
fault_tests() {
    limited_tests --workspace --features poolwright-openzfs/fault-injection --test power --test faults --test torn --test stress \
        --test device --test interrupted
}

# Prints which tests were skipped, and why.
skipped_tests() {
    [ ! -s "$POOLWRIGHT_SKIPPED" ] || { say "== Skipped tests"; sort -u "$POOLWRIGHT_SKIPPED"; }
    rm -f -- "$POOLWRIGHT_SKIPPED"
}

rust_tests() {
    POOLWRIGHT_SKIPPED=$(mktemp "${TMPDIR:-/tmp}/poolwright-skipped-tests.XXXXXX")
    export POOLWRIGHT_SKIPPED
    step "Tests with injected faults" fault_tests
    step "Tests of the workspace" limited_tests --workspace
}

main() {
    local install=yes
    cd "$POOLWRIGHT_ROOT"
    build_for_tests
    case ${1:-} in
        '') ;;
        --no-install) install=no ;;
        --scripts) script_tests; return ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    [ $install = no ] || step "Install packages for the tests" "$POOLWRIGHT_ROOT/scripts/install.sh" --for test
    step "Build" cargo build --release --locked --workspace --all-targets
    begin_script_tests
    rust_tests
    step "Tests of the scripts and the whole program" wait_for_script_tests
    skipped_tests
}

main "$@"
