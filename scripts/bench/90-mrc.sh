#!/usr/bin/env bash
# Measures miss-ratio curves: ARC at eight sizes, compared with libcachesim's native multi-threaded simulator, and the rate of LRU curves.
#
# usage: scripts/bench/90-mrc.sh
#
# Both programs read the same trace in the same format (uncompressed oracleGeneral), for the same sizes, with all CPUs. Whole commands are
# timed, in turns, so reading is included. The reference is the faster of libcachesim's program `cachesim`, if it can be built
# (scripts/mrc/cachesim.sh), and the same C code in threads of its Python package. Wall time and CPU time are printed; on a shared machine,
# CPU time is the reliable one.
#
# Environment: CACHESIM names another `cachesim`, POOLWRIGHT another program than target/release/poolwright. BENCH_SMOKE=1 shortens the
# bench.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

TARGET=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}
PYTHON=${POOLWRIGHT_VENV:-$POOLWRIGHT_ROOT/target/venv}/bin/python3
export POOLWRIGHT=${POOLWRIGHT:-$TARGET/release/poolwright} RATE=$TARGET/release/mrc-rate
export POOLWRIGHT_SHARED=${POOLWRIGHT_SHARED:-$POOLWRIGHT_ROOT/../shared}
if ! "$PYTHON" -c 'import libcachesim, numpy, pyarrow' 2>/dev/null; then
    say "BENCH-SKIP $PYTHON cannot import libcachesim (scripts/install.sh --for bench installs it)"
    exit 0
fi
if [ -z "${CACHESIM:-}" ]; then
    "$POOLWRIGHT_ROOT/scripts/mrc/cachesim.sh" || say "cachesim could not be built; comparing with libcachesim's Python package only"
    CACHESIM=$POOLWRIGHT_ROOT/target/cachesim/cachesim
fi
export CACHESIM

SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
[ -n "${BENCH_SCRATCH:-}" ] || trap 'rm -rf -- "$SCRATCH"' EXIT
if [ "${BENCH_SMOKE:-0}" = 1 ]; then ROUNDS=2; else ROUNDS=9; fi
cd "$SCRATCH"
"$PYTHON" "$POOLWRIGHT_ROOT/scripts/bench/mrc_figures.py" "$ROUNDS"
