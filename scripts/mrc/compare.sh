#!/usr/bin/env bash
# LRU and the textbook ARC of `poolwright mrc` against libcachesim's, size by size.
#
# usage: scripts/mrc/compare.sh
#
# The traces of the ARC paper (OLTP, P3) where they are, in ../shared/data or $POOLWRIGHT_SHARED/data; and always a
# generated one, once as pages and once, for LRU, as objects of many sizes. libcachesim (GPL) runs as a process of its own,
# in the Python environment of the tests (target/venv, or $POOLWRIGHT_VENV).
#
# POOLWRIGHT names the program, target/release/poolwright if it is not set.
# Exit status: 0 no hit ratio differs by more than 0.02 percentage points, 1 one does, or nothing could be compared.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

PYTHON=${POOLWRIGHT_VENV:-$POOLWRIGHT_ROOT/target/venv}/bin/python3
export POOLWRIGHT=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
export POOLWRIGHT_SHARED=${POOLWRIGHT_SHARED:-$POOLWRIGHT_ROOT/../shared}

"$PYTHON" -c 'import libcachesim, numpy, pyarrow' 2>/dev/null \
    || die 1 "libcachesim cannot be imported by $PYTHON; scripts/install.sh --for test installs it."
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-mrc.XXXXXX")
trap 'rm -rf -- "$SCRATCH"' EXIT
"$PYTHON" "$POOLWRIGHT_ROOT/scripts/mrc/compare.py" "$SCRATCH"
