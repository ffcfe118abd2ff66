#!/usr/bin/env bash
# Measures a file with many records on the mount: the cost per record of writing, reading, finding holes, overwriting, truncating and
# deleting, with MANY_RECORDS records and with a tenth of them; the latency of other writers meanwhile; the server's memory.
#
# usage: scripts/bench/81-many-records.sh
#
# Environment (default in parentheses):
#   MANY_RECORDS  number of records (10240000)
#   MANY_ROUNDS   rounds, each with the smaller and the larger number (1)
#
# Settings: recordsize=1K, lz4, ashift=9, ARC limit 2G, rows that compress to half. The data take 6G, but freed space is not reused at
# once, so the bench needs 20G of free space in BENCH_SCRATCH, or in TMPDIR.
#
# Exit status: 0 done, or skipped because FUSE mounts are not possible; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

exec python3 "$POOLWRIGHT_ROOT/scripts/bench/many_records.py"
