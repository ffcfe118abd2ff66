#!/usr/bin/env bash
# A file of many records, through the mount: what writing, reading, finding holes, overwriting, truncating and deleting
# costs for each, with MANY_RECORDS of them beside a tenth of that; how long others wait meanwhile; memory.
#
# usage: scripts/bench/81-many-records.sh
#
# MANY_RECORDS (10240000), MANY_ROUNDS (1), the smaller and the larger in turns. recordsize=1K, lz4, ashift=9, rows that
# pack into half: 6G, but overwritten and freed space is not used again at once, so 20G have to be free in BENCH_SCRATCH,
# or in TMPDIR where that is not given. ARC limit 2G.
# Exit status: 0 done, or skipped because nothing can be mounted; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

exec python3 "$POOLWRIGHT_ROOT/scripts/bench/many_records.py"
