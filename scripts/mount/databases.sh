#!/usr/bin/env bash
# Tests unmodified databases on a mounted pool. Each database is filled, loaded and stopped; the pool is unmounted, exported, imported
# and mounted again. Then the database's own consistency check must pass, and its contents must be unchanged.
#
# usage: scripts/mount/databases.sh [--modes through,pages,writeback] [--only NAME,…] [--seconds N]
#
#   --modes    caching modes of the mount (default: all three)
#   --only     some of: sqlite-wal sqlite-rollback sqlite-mmap postgresql mariadb mariadb-direct lmdb rocksdb
#              rocksdb-direct rocksdb-mmap openldap
#   --seconds  length of each load (default 5)
#
# Environment: POOLWRIGHT_KEEP_LOGS=DIR keeps the logs of failures in DIR; POOLWRIGHT_SCRATCH=DIR puts the pools into DIR (default
# /dev/shm). Requires root, and the packages that scripts/mount/install.sh installs. Each database has its own pool.
#
# Exit status: 0 all passed, 1 a test failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=scripts/mount/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

DATABASES=(sqlite-wal sqlite-rollback sqlite-mmap postgresql mariadb mariadb-direct lmdb rocksdb rocksdb-direct
    rocksdb-mmap openldap)
MODES=through,pages,writeback
LOAD_SECONDS=5
# Time limit of a phase in seconds.
PATIENCE=300

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --modes) MODES=${2:?} ;;
            --only) IFS=, read -ra DATABASES <<<"${2:?}" ;;
            --seconds) LOAD_SECONDS=${2:?} ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift 2
    done
}

# phase NAME fill|check: runs one phase of a database; its output goes to a log.
phase() {
    local name=$1 verb=$2 script variant
    script=${name%%-*} variant=${name#*-}
    [ "$variant" != "$name" ] || variant=plain
    LOAD_SECONDS=$LOAD_SECONDS timeout -k 10 $PATIENCE "$POOLWRIGHT_ROOT/scripts/mount/databases/$script.sh" "$verb" \
        "$variant" "$MNT" "$SCRATCH/work" >"$SCRATCH/$verb.log" 2>&1
}

# one NAME MODE: runs one test; sets REASON if it failed.
one() {
    local name=$1 mode=$2
    REASON=
    mount_up "$mode" 2>"$SCRATCH/mount.log" || { REASON="mount: $(last_line "$SCRATCH/mount.log")"; return 1; }
    phase "$name" fill || { REASON="under load: $(last_line "$SCRATCH/fill.log" 3)"; return 1; }
    mount_down 2>"$SCRATCH/mount.log" || { REASON="unmount: $(last_line "$SCRATCH/mount.log" 2)"; return 1; }
    mount_up "$mode" 2>"$SCRATCH/mount.log" || { REASON="mount again: $(last_line "$SCRATCH/mount.log" 2)"; return 1; }
    phase "$name" check || { REASON="after import: $(last_line "$SCRATCH/check.log" 3)"; return 1; }
    mount_down 2>"$SCRATCH/mount.log" || { REASON="last unmount: $(last_line "$SCRATCH/mount.log" 2)"; return 1; }
}

main() {
    local name mode modes status
    parse_arguments "$@"
    "$POOLWRIGHT_ROOT/scripts/mount/install.sh" --check || die 1 "required packages are missing; run scripts/mount/install.sh"
    mount_prepare
    IFS=, read -ra modes <<<"$MODES"
    for mode in "${modes[@]}"; do
        for name in "${DATABASES[@]}"; do
            status=0
            one "$name" "$mode" || status=$?
            if [ $status -ne 0 ] && ! mount_alive && [ -n "$MOUNT_PID" ]; then
                REASON="$REASON; the mount process has ended: $(last_line "$SCRATCH/serve.log" 2)"
            fi
            verdict "$name $mode" $status "$REASON"
            if [ $status -ne 0 ] && [ -n "${POOLWRIGHT_KEEP_LOGS:-}" ]; then
                find "$SCRATCH" -maxdepth 2 -name '*.log' -not -path "$MNT/*" -exec cp {} "$POOLWRIGHT_KEEP_LOGS" \;
            fi
            mount_discard
        done
    done
    summary || exit 1
}

main "$@"
