#!/usr/bin/env bash
# Runs all tests that need no kernel ZFS (`make test`).
#
# usage: scripts/test.sh [--no-install]
#
# Installs the packages of the tests, builds, and runs the scripts of scripts/tests and the tests of the workspace. Each test has a
# time limit (scripts/limit.py), which reports a test that exceeds it. A test that needs a privilege that this user lacks
# (recording with eBPF needs root) reports that it is skipped.
#
# Exit status: 0 all passed, 1 a test failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# Time limit of a script of scripts/tests, in seconds.
SCRIPT_LIMIT=600

script_tests() {
    local test failed=()
    for test in "$POOLWRIGHT_ROOT"/scripts/tests/*.sh; do
        say "-- ${test#"$POOLWRIGHT_ROOT/"}"
        limited "$SCRIPT_LIMIT" "$test" || failed+=("${test##*/}")
    done
    [ ${#failed[@]} -eq 0 ] || die 1 "failed: ${failed[*]} (their messages are above)"
}

# Property tests use the same cases in each run, so that a failure belongs to the change under test. Set another seed to test
# other cases.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

# limited_tests ARGUMENTS...: `cargo test`, with all test programs even if one fails. Cargo starts each through limit.py, which
# reports and kills a test that hangs.
limited_tests() {
    local runner
    runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    env "$runner=$POOLWRIGHT_ROOT/scripts/limit.py" cargo test --release --locked --no-fail-fast "$@"
}

# Tests with injected I/O errors and simulated power cuts, which need a feature that shipped programs lack.
fault_tests() {
    limited_tests -p poolwright-openzfs --features fault-injection --test power --test faults --test torn --test stress \
        --test device
}

main() {
    local install=yes
    case ${1:-} in
        '') ;;
        --no-install) install=no ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    [ $install = no ] || step "Install packages for the tests" "$POOLWRIGHT_ROOT/scripts/install.sh" --for test
    cd "$POOLWRIGHT_ROOT"
    step "Build" cargo build --release --locked --workspace --all-targets
    step "Tests of the scripts and the whole program" script_tests
    step "Tests with injected faults" fault_tests
    step "Tests of the workspace" limited_tests --workspace
}

main "$@"
