#!/usr/bin/env bash
# Measures sampled miss-ratio curves: for how many of a hundred seeds the printed confidence interval contains the exact miss ratio, at the
# cache size with the lowest coverage; the widths of the intervals; time and memory for a long trace.
#
# usage: scripts/bench/91-mrc-sample.sh
#
# Environment (default in parentheses):
#   MRC_SEEDS          samples of each trace (100)
#   MRC_MODELS         cache models (lru,arc,openzfs)
#   MRC_RATES          sampling rates (0.1,0.01)
#   MRC_MILLIONS       million requests of the long trace, 24 MB each (100)
#   MRC_TRACES         traces (long,OLTP,P3,generated)
#   POOLWRIGHT_SHARED  directory with data/arc-OLTP.lis.zst and data/arc-P3.lis.zst, the traces of the ARC paper (../shared); a missing
#                      trace is skipped
#   POOLWRIGHT         the program (target/release/poolwright)
#
# Exit status: 0 done; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

export POOLWRIGHT=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
export POOLWRIGHT_SHARED=${POOLWRIGHT_SHARED:-$POOLWRIGHT_ROOT/../shared}
PYTHON=${POOLWRIGHT_VENV:-$POOLWRIGHT_ROOT/target/venv}/bin/python3
if ! "$PYTHON" -c 'import numpy, pyarrow' 2>/dev/null; then
    say "BENCH-SKIP $PYTHON cannot import numpy and pyarrow (scripts/install.sh --for bench installs them)"
    exit 0
fi
SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
[ -n "${BENCH_SCRATCH:-}" ] || trap 'rm -rf -- "$SCRATCH"' EXIT
cd "$SCRATCH"
"$PYTHON" "$POOLWRIGHT_ROOT/scripts/bench/mrc_sample.py"
