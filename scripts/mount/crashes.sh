#!/usr/bin/env bash
# Kills the mount process, and simulates power failures, at random moments under load. After each crash the pool is imported and mounted
# again, and all acknowledged operations must be there.
#
# usage: scripts/mount/crashes.sh [--kills N] [--cuts N] [--loads sqlite,names,blocks,mariadb] [--modes MODE,…]
#                                 [--minutes M] [--seed S] [--set PROPERTY=VALUE]... [--lie]
#
#   --kills    kills with SIGKILL for each load (default 8)
#   --cuts     power failures for each load (default 8): unflushed writes are lost, reordered and torn
#   --loads    sqlite   commits of single rows, to a WAL (synchronous=FULL) and a rollback journal (EXTRA) at the same time
#              names    files written, synced, renamed over others, linked and removed; their directory synced
#              blocks   ranges of files overwritten, buffered and direct, then synced
#              mariadb  commits of four clients, sync_binlog=1, innodb_flush_log_at_trx_commit=1
#              mariadb-nodoublewrite       the same with innodb_doublewrite=OFF: pages must not be torn
#              postgres-nofullpagewrites   PostgreSQL with full_page_writes=off and page checksums; use --set recordsize=8K
#   --modes    caching modes of the mount, one of them at random for each crash (default through,pages,writeback)
#   --minutes  stop after this many minutes, even if crashes are left
#   --seed     seed of all random choices (default: random, printed)
#   --set      a property of the dataset, besides recordsize=16K and compression=lz4
#   --expect-damage   fail if nothing is lost: for configurations that are known to lose data
#   --lie      the emulated drives ignore flushes, and the run fails if nothing is lost: shows that the tests can detect losses
#
# A failure is printed with its seed. POOLWRIGHT_KEEP_POOLS=DIR keeps the pool's file after a failure. Requires root.
#
# Exit status: 0 nothing lost, 1 data lost, 2 wrong usage.
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
