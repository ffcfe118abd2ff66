#!/usr/bin/env bash
# Measures sampled miss-ratio curves: for how many of a hundred seeds the printed confidence interval contains the exact miss ratio, at the
# cache size with the lowest coverage; the widths of the intervals; time and memory for a trace of a billion requests.
#
# usage: scripts/bench/91-mrc-sample.sh
#
# Environment (default in parentheses):
#   MRC_SEEDS          samples of each trace (100)
#   MRC_MODELS         cache models (lru,arc,openzfs)
#   MRC_RATES          sampling rates (0.1,0.01)
#   MRC_REQUESTS       requests of the long trace (1G)
#   MRC_TRACES         traces (long,OLTP,P3,zipf,scan and zipf,loop,large loop)
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
exec python3 "$POOLWRIGHT_ROOT/scripts/bench/mrc_sample.py"
