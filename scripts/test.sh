#!/usr/bin/env bash
# Every test that needs no kernel ZFS: what `make test` does.
#
# usage: scripts/test.sh [--no-install]
#
# Installs what the tests use, builds, then runs the scripts of scripts/tests and the tests of the workspace.
# Each test has a time limit (scripts/limit.py), and is named when it exceeds it.
# A test that needs a right this user does not have (recording with eBPF needs root) says that it was left out.
#
# Exit status: 0 all passed, 1 a test failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# Seconds that a script of scripts/tests may take.
SCRIPT_LIMIT=600

script_tests() {
    local test failed=()
    for test in "$POOLWRIGHT_ROOT"/scripts/tests/*.sh; do
        say "-- ${test#"$POOLWRIGHT_ROOT/"}"
        limited "$SCRIPT_LIMIT" "$test" || failed+=("${test##*/}")
    done
    [ ${#failed[@]} -eq 0 ] || die 1 "failed: ${failed[*]} (their messages are above)"
}

# Property tests draw the same cases in each run, or a change would be refused for what another one brought; to look for
# more, set another number.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

# limited_tests ARGUMENTS...: `cargo test`. Cargo starts each test program through limit.py, so that a test that hangs is named
# and ended.
limited_tests() {
    local runner
    runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    env "$runner=$POOLWRIGHT_ROOT/scripts/limit.py" cargo test --release --locked "$@"
}

# Faults of the host and simulated power cuts: a program that is shipped has none of this.
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
    [ $install = no ] || step "Install what the tests use" "$POOLWRIGHT_ROOT/scripts/install.sh" --for test
    cd "$POOLWRIGHT_ROOT"
    step "Build" cargo build --release --locked --workspace --all-targets
    step "Tests of the scripts and the whole program" script_tests
    step "Tests with injected faults" fault_tests
    step "Tests of the workspace" limited_tests --workspace
}

main "$@"
