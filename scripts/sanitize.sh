#!/usr/bin/env bash
# Runs sanitizers, Miri and loom (`make sanitize`).
#
# usage: scripts/sanitize.sh [--quick] [address|miri|loom|thread...]
#
#   address  the engine's C under AddressSanitizer, UndefinedBehaviorSanitizer and LeakSanitizer, driven by the
#            tests of crates/openzfs; OpenZFS itself is not instrumented
#   miri     the FUSE decoder's tests, interpreted by Miri
#   loom     the mount's lock tables, with all interleavings of their threads
#   thread   the engine's C under ThreadSanitizer
#   --quick  checks that take five minutes after the build: of `address`, tests with one process; not `thread`
#
# Default: all. Miri needs a nightly toolchain with the components miri and rust-src; without them, the script reports that Miri
# was skipped.
#
# Exit status: 0 clean, 1 findings, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

QUICK=no
CHECKS=()
HOST=$(rustc -vV | sed -n 's/^host: //p')
# Other builds cannot use instrumented objects.
OUT=$POOLWRIGHT_ROOT/target/sanitize
SUPPRESSIONS=$POOLWRIGHT_ROOT/scripts/sanitize
LEFT_OUT=()

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --quick) QUICK=yes ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            address | miri | loom | thread) CHECKS+=("$1") ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift
    done
    [ ${#CHECKS[@]} -gt 0 ] || CHECKS=(address miri loom thread)
}

# nightly_has COMPONENT...
nightly_has() {
    local component installed
    installed=$(rustup component list --toolchain nightly --installed 2>/dev/null) || return 1
    for component in "$@"; do
        grep -q "^$component\b" <<<"$installed" || return 1
    done
}

# left_out CHECK COMPONENT...: reports a check that cannot run, and why.
left_out() {
    local check=$1
    shift
    LEFT_OUT+=("$check")
    warn "NOT run: $check. It needs a nightly toolchain with $*; install it with:
  rustup toolchain install nightly --component $(tr ' ' ',' <<<"$*")"
}

# limited_tests: runs each test program with a time limit, which allows for slow instrumented code. Address-space randomization is
# off: with the number of random bits of present kernels, mappings sometimes collide with ThreadSanitizer's shadow memory.
limited_tests() {
    local runner
    runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$HOST")_RUNNER
    local same_addresses=(setarch -R)
    # A container may forbid this.
    setarch -R true 2>/dev/null || same_addresses=()
    env "$runner=$POOLWRIGHT_ROOT/scripts/limit.py --each 900 --program 1800" ${same_addresses[@]+"${same_addresses[@]}"} "$@"
}

# engine_tests SANITIZERS TEST...: runs the engine's tests with its C code instrumented. The Rust code is not instrumented, which
# would need a nightly toolchain; the errors to find are in the C code.
engine_tests() {
    local sanitizers=$1
    shift
    RUSTFLAGS="--cfg poolwright_sanitize -C linker=$SUPPRESSIONS/sanitize-gcc.sh" POOLWRIGHT_SANITIZE=$sanitizers \
        limited_tests cargo test --release --locked --target "$HOST" --target-dir "$OUT/engine" -p poolwright-openzfs "$@"
}

# A finding of UBSan ends the test, as one of ASan does. The test of memory use is skipped, because sanitizers use more memory.
check_address() {
    local tests=(--no-fail-fast --tests --features fault-injection -- --skip the_arc_stays_inside_its_limit)
    [ $QUICK = no ] || tests=(--test pool --test tree --test clone --test counters --test virtual_clock --test codec_costs)
    ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1 \
        LSAN_OPTIONS=suppressions=$SUPPRESSIONS/leaks.supp:print_suppressions=0 \
        UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
        engine_tests address,undefined "${tests[@]}"
}

# ThreadSanitizer sees libzpool's locks, which are the C library's, but not its atomic operations. Checks of the lock order are off:
# libzpool locks thousands of buffers in its own order, and all reports are about these.
check_thread() {
    TSAN_OPTIONS=suppressions=$SUPPRESSIONS/races.supp:detect_deadlocks=0:halt_on_error=0:history_size=4 \
        engine_tests thread --no-fail-fast --test tree --test clone --test counters --test pool
}

# Miri interprets each load and store of the decoder.
check_miri() {
    nightly_has miri rust-src || { left_out miri miri rust-src; return 0; }
    MIRIFLAGS=-Zmiri-disable-isolation \
        cargo +nightly miri test --locked --target-dir "$OUT/miri" -p poolwright-mount --test protocol
}

check_loom() {
    RUSTFLAGS="--cfg poolwright_loom" limited_tests cargo test --release --locked --target "$HOST" --target-dir "$OUT/loom" \
        -p poolwright-mount --lib loom_
}

main() {
    local check
    parse_arguments "$@"
    cd "$POOLWRIGHT_ROOT"
    for check in "${CHECKS[@]}"; do
        [ "$check" = thread ] && [ $QUICK = yes ] && continue
        step "Sanitizer: $check" "check_$check"
    done
    [ ${#LEFT_OUT[@]} -eq 0 ] || say "Skipped, because there is no nightly toolchain: ${LEFT_OUT[*]}"
}

main "$@"
