#!/usr/bin/env bash
# LRU and ARC of `poolwright mrc` give libcachesim's hit ratios.
set -euo pipefail
exec "$(dirname -- "$0")/../mrc/compare.sh"
