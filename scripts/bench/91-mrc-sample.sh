#!/usr/bin/env bash
# Sampled miss-ratio curves: in how many of a hundred seeds the exact miss ratio lies in the printed band, at the size
# where it does least often, and how wide the bands are; what a trace of a billion requests takes.
#
# usage: scripts/bench/91-mrc-sample.sh
#
# OLTP and P3, the traces of the ARC paper, where they are, in ../shared/data or $POOLWRIGHT_SHARED/data; always two loops,
# Zipf's law, and that with scans. MRC_SEEDS (100) samples of each, MRC_MODELS (lru,arc,openzfs), MRC_RATES (0.1,0.01),
# MRC_REQUESTS (1G) of the long trace, MRC_TRACES (long,OLTP,P3,zipf,scan and zipf,loop,large loop). POOLWRIGHT names another binary than target/release/poolwright.
# Exit status: 0 done; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

export POOLWRIGHT=${POOLWRIGHT:-$POOLWRIGHT_ROOT/target/release/poolwright}
export POOLWRIGHT_SHARED=${POOLWRIGHT_SHARED:-$POOLWRIGHT_ROOT/../shared}
exec python3 "$POOLWRIGHT_ROOT/scripts/bench/mrc_sample.py"
