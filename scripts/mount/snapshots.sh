#!/usr/bin/env bash
# Tests recursive snapshots of PostgreSQL under load, with its data and its log on two datasets. Rolls back to each snapshot; the recovery
# must be clean and contain all transactions that were acknowledged before the snapshot.
#
# usage: scripts/mount/snapshots.sh [--snapshots N] [--one-by-one]
#
#   --snapshots    number of snapshots (default 50)
#   --one-by-one   take the snapshots of the two datasets separately, the log's first, with a checkpoint in between. Recoveries must fail,
#                  which shows that the test can detect inconsistent snapshots
#
# Requires root. Exit status: 0 all recoveries are clean, 1 a recovery failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=scripts/mount/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in -h | --help) usage_from "$0"; exit 0 ;; esac
mount_prepare
python3 "$POOLWRIGHT_ROOT/scripts/mount/crash/snapshots.py" --poolwright "$POOLWRIGHT" \
    --pool "$POOL" --scratch "$SCRATCH/work" "$@" || exit $?
