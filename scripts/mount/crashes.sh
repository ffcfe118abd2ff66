#!/usr/bin/env bash
# Kills of the mount process and simulated power cuts, at random moments under load; after each the pool is imported and
# mounted again, and all that had been acknowledged must be there.
#
# usage: scripts/mount/crashes.sh [--kills N] [--cuts N] [--loads sqlite,names,blocks,mariadb] [--modes MODE,…]
#                                 [--minutes M] [--seed S] [--set PROPERTY=VALUE]... [--lie]
#
#   --kills    kill -9 per load (default 8)
#   --cuts     power cuts per load (default 8): unflushed writes are lost, reordered and torn
#   --loads    sqlite   rows one by one, a WAL (synchronous=FULL) and a rollback journal (EXTRA) at once
#              names    files written, synced and renamed over others, linked, removed; their directory synced
#              blocks   ranges of files overwritten, buffered and direct, then synced
#              mariadb  commits of four clients, sync_binlog=1, innodb_flush_log_at_trx_commit=1
#              mariadb-nodoublewrite       the same with innodb_doublewrite=OFF: pages must not be torn
#              postgres-nofullpagewrites   PostgreSQL with full_page_writes=off and page checksums; use --set recordsize=8K
#   --modes    how the mount caches, drawn for each (default through,pages,writeback)
#   --minutes  stop after so many minutes, even if fewer were done
#   --seed     repeats a run's draws (default: random, printed)
#   --set      a property of the dataset, beside recordsize=16K and compression=lz4
#   --expect-damage   the run fails if nothing is lost: for configurations that must not work
#   --lie      the drives' flushes do nothing: losses must be found, or these tests cannot find any
#
# A failure is printed with its seed and keeps the pool's file if POOLWRIGHT_KEEP_POOLS=DIR is set. Needs root.
# Exit status: 0 nothing lost, 1 something lost, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=scripts/mount/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in -h | --help) usage_from "$0"; exit 0 ;; esac
MOUNT_FEATURES=fault-injection
mount_prepare
python3 "$POOLWRIGHT_ROOT/scripts/mount/crash/crashes.py" --poolwright "$POOLWRIGHT" \
    --pool "$POOL" --scratch "$SCRATCH/work" "$@" || exit $?
