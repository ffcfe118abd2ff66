#!/usr/bin/env bash
# PostgreSQL under load with its data and its log on two datasets: recursive snapshots, then a rollback to each of them and
# a recovery, which must be clean and hold all that had been acknowledged.
#
# usage: scripts/mount/snapshots.sh [--snapshots N] [--one-by-one]
#
#   --snapshots    how many (default 50)
#   --one-by-one   the two datasets' snapshots one after the other, the log's first, with a checkpoint in between: recoveries
#                  must fail, or this test finds nothing
#
# Needs root. Exit status: 0 all clean, 1 a recovery failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=scripts/mount/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in -h | --help) usage_from "$0"; exit 0 ;; esac
mount_prepare
python3 "$POOLWRIGHT_ROOT/scripts/mount/crash/snapshots.py" --poolwright "$POOLWRIGHT" \
    --pool "$POOL" --scratch "$SCRATCH/work" "$@" || exit $?
