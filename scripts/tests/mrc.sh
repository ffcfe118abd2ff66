#!/usr/bin/env bash
# Tests that LRU and ARC of `poolwright mrc` have the same hit ratios as libcachesim.
set -euo pipefail
exec "$(dirname -- "$0")/../mrc/compare.sh"
