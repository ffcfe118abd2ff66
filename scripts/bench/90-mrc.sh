#!/usr/bin/env bash
# Miss-ratio curves: ARC at eight sizes against libcachesim's native multi-threaded simulator, and the rate of LRU curves.
#
# usage: scripts/bench/90-mrc.sh
#
# The same trace in the same format (oracleGeneral, not compressed), the same sizes, all processors; whole commands, so that
# reading is in, in turns. libcachesim's simulator is its program `cachesim` where it can be built (scripts/mrc/cachesim.sh;
# $CACHESIM names another), and always the same C code in threads of its Python package; the faster one counts.
# On a machine that others use, the processor time is the one to believe: both are printed.
# BENCH_SMOKE=1 makes it quick. POOLWRIGHT names the program.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

TARGET=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}
PYTHON=${POOLWRIGHT_VENV:-$POOLWRIGHT_ROOT/target/venv}/bin/python3
export POOLWRIGHT=${POOLWRIGHT:-$TARGET/release/poolwright} RATE=$TARGET/release/mrc-rate
export POOLWRIGHT_SHARED=${POOLWRIGHT_SHARED:-$POOLWRIGHT_ROOT/../shared}
if ! "$PYTHON" -c 'import libcachesim, numpy, pyarrow' 2>/dev/null; then
    say "BENCH-SKIP libcachesim cannot be imported by $PYTHON (scripts/install.sh --for bench installs it)"
    exit 0
fi
if [ -z "${CACHESIM:-}" ]; then
    "$POOLWRIGHT_ROOT/scripts/mrc/cachesim.sh" || say "cachesim is left out; libcachesim's threads in Python stand for it"
    CACHESIM=$POOLWRIGHT_ROOT/target/cachesim/cachesim
fi
export CACHESIM

SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
[ -n "${BENCH_SCRATCH:-}" ] || trap 'rm -rf -- "$SCRATCH"' EXIT
if [ "${BENCH_SMOKE:-0}" = 1 ]; then ROUNDS=2; else ROUNDS=9; fi
cd "$SCRATCH"
"$PYTHON" "$POOLWRIGHT_ROOT/scripts/bench/mrc_figures.py" "$ROUNDS"
