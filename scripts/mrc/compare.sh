#!/usr/bin/env bash
# Compares LRU and the textbook ARC of `poolwright mrc` with libcachesim's, for each size.
#
# usage: scripts/mrc/compare.sh
#
# Uses the traces of the ARC paper (OLTP, P3), if they are in ../shared/data or $POOLWRIGHT_SHARED/data, and a generated trace, as
# pages and, for LRU, as objects of many sizes. libcachesim (GPL) runs in a separate process, in the Python environment of the
# tests (target/venv, or $POOLWRIGHT_VENV).
#
# POOLWRIGHT names the program; default: target/release/poolwright.
# Exit status: 0 no hit ratio differs by more than 0.02 percentage points, 1 one does, or nothing could be compared.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

PYTHON=${POOLWRIGHT_VENV:-$POOLWRIGHT_ROOT/target/venv}/bin/python3
export POOLWRIGHT=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
export POOLWRIGHT_SHARED=${POOLWRIGHT_SHARED:-$POOLWRIGHT_ROOT/../shared}

"$PYTHON" -c 'import libcachesim, numpy, pyarrow' 2>/dev/null \
    || die 1 "$PYTHON cannot import libcachesim; scripts/install.sh --for test installs it."
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-mrc.XXXXXX")
trap 'rm -rf -- "$SCRATCH"' EXIT
"$PYTHON" "$POOLWRIGHT_ROOT/scripts/mrc/compare.py" "$SCRATCH"
