# shellcheck shell=bash
# The guest's part of the part `standby`: scripts/test-kernel.sh runs this script in the guest. It moves a PostgreSQL under load to another
# pool by a standby server (`poolwright apply --new-pool --standby`), and back. Each result is a line that starts with "pass" or "fail".
#
# usage: standby.sh standby
set -u
umask 022

# The programs of util-linux before those of busybox.
export PATH=/disk/util:$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/disk/state HOME=/root
MOUNT=/srv/db
LOG=/srv/db-log

# shellcheck source=scripts/vm/guest.sh
. /guest.sh
# shellcheck source=scripts/vm/database.sh
. /disk/database.sh

service=(--stop "bash /tmp/stop.sh" --start "bash /tmp/start.sh")
move=(poolwright apply /disk/plan.json --new-pool fast --standby --yes "${service[@]}")
undo=(poolwright undo /disk/plan.json --online --yes "${service[@]}")

# places: the datasets that are mounted on the two directories.
places() { awk -v a="$MOUNT" -v b="$LOG" '$2 == a || $2 == b { print $1 }' /proc/mounts | sort | tr '\n' ' '; }

# block_sizes BYTES: the number of files of more than one block that have another block size.
block_sizes() { find "$MOUNT/main/base" -type f -exec stat -c '%o %s' {} + | awk -v size="$1" '$2 > size && $1 != size' | wc -l; }

# The data directory is `main` in a dataset, beside a file of the user; its log and a tablespace are on another dataset.
make_database() {
    mkdir -p /usr/bin $MOUNT $LOG
    ln -sf /bin/busybox /usr/bin/env
    truncate -s 4G /disk/pool /disk/other
    expect "a pool with ashift 9" zpool create -f -o ashift=9 -O mountpoint=none -O compression=lz4 tank /disk/pool
    expect "a pool with ashift 12" zpool create -f -o ashift=12 -O mountpoint=none fast /disk/other
    database_system
    install_programs /disk/util/*
    zfs create -o mountpoint=$MOUNT tank/db
    zfs create -o mountpoint=$LOG -o logbias=throughput tank/log
    mkdir -m 0700 $MOUNT/main
    database_files $MOUNT/main
    mv $MOUNT/main/pg_wal $LOG/wal
    ln -s $LOG/wal $MOUNT/main/pg_wal
    mkdir -m 0700 $LOG/space
    chown 1000:1000 $LOG/space
    chown -h 1000:1000 $MOUNT/main/pg_wal
    echo "of the user" >$MOUNT/notes
    sed 's|@RECOMMENDED@|"recordsize":"8K","compression":"zstd-3"|' /disk/plan.template >/disk/plan.json
    postgres_service $MOUNT/main
}

# settled TEXT POOL: the database is on this pool, and has every row.
settled() {
    same "$1: the datasets are in their places" "$(places)" "$2/db $2/log "
    same "$1: it is no standby" "$(sql 'SELECT pg_is_in_recovery()')" f
    same "$1: the file of the user" "$(cat $MOUNT/notes)" "of the user"
    intact "$1"
}

# returned: the snapshots of the datasets as they were when the database moved are kept, and named.
returned() {
    local name number=0
    for name in $(zfs list -H -t snapshot -o name); do
        grep -q "$name" /tmp/undone || continue
        number=$((number + 1))
        zfs destroy "$name"
    done
    same "two snapshots were kept, and named" $number 2
}

# killed SECONDS: runs that are killed at five times of an undisturbed one, which took so long.
killed() {
    local tenth
    for tenth in 1 3 5 7 9; do
        "${move[@]}" >/tmp/killed 2>&1 &
        pause $(($1 * tenth / 10))
        if kill -KILL $! 2>/dev/null; then
            pass "killed at $tenth tenths, after: $(tail -n 1 /tmp/killed | cut -c 1-100)"
        else
            pass "the run has ended before $tenth tenths"
        fi
        wait $! 2>/dev/null
        case $(places) in
            "fast/db fast/log ")
                "${undo[@]}" >/tmp/undone 2>&1 || fail "undo after a run that was not killed: $(tail -n 3 /tmp/undone | tr '\n' ' ')"
                returned
                ;;
        esac
    done
    expect "a run after five that were killed" "${move[@]}"
    settled "moved after five kills" fast
    expect "undo" "${undo[@]}"
    cp /tmp/said /tmp/undone
    settled "undone" tank
    returned
}

step_standby() {
    SYSTEM=postgres
    make_database
    : >/tmp/committed
    expect "the server starts" bash /tmp/start.sh || { tail -n 5 /tmp/log; return; }
    # Poolwright connects as the user of the operating system.
    expect "a role of the user" sql "CREATE ROLE database SUPERUSER LOGIN"
    ROWS=$(sql "SELECT count(*) FROM t")
    same "it has rows" "$([ "$ROWS" -gt 1000 ] && echo yes)" yes
    before=$(zfs get -Hp -r -t filesystem -o name,property,value,source mountpoint,canmount,recordsize,compression tank)
    everything=$(zfs list -H -t all -o name | tr '\n' ' ')
    expect "a tablespace" sql "CREATE TABLESPACE space LOCATION '$LOG/space'"
    expect "a table in it" sql "CREATE TABLE s TABLESPACE space AS SELECT * FROM t"
    expect "an unlogged table" sql "CREATE UNLOGGED TABLE volatile (n int)"
    refused "a standby would not have it" "unlogged table" "${move[@]}"
    expect "it is dropped" sql "DROP TABLE volatile"
    expect "its files are removed" sql "CHECKPOINT"
    load &
    local began=$SECONDS
    expect "the database moves by a standby" "${move[@]}"
    local seconds=$((SECONDS - began))
    pass "standby: $(grep 'was stopped for' /tmp/said)"
    settled "moved" fast
    same "every file has blocks of 8K" "$(block_sizes 8192)" 0
    same "the pool has ashift 12" "$(zpool get -H -o value ashift fast)" 12
    same "the table in the tablespace" "$(sql 'SELECT count(*) FROM s')" "$ROWS"
    expect "it goes back" "${undo[@]}"
    cp /tmp/said /tmp/undone
    pass "$(grep 'was stopped for' /tmp/said)"
    settled "moved back" tank
    same "properties and sources are as before" "$(zfs get -Hp -r -t filesystem -o name,property,value,source mountpoint,canmount,recordsize,compression tank)" "$before"
    returned
    same "nothing is left" "$(zfs list -H -t all -o name | tr '\n' ' ')" "$everything"
    killed $seconds
    touch /tmp/enough
    wait
    expect "the server stops" bash /tmp/stop.sh
    expect "pg_checksums" as_database "pg_checksums --check -D $MOUNT/main"
    pass "$(grep -i 'bad checksums' /tmp/said)"
    same "no process is left" "$(grep -l '^Uid:.1000' /proc/[0-9]*/status 2>/dev/null | wc -l)" 0
    expect "the new pool can be exported" zpool export fast
    expect "and the old one" zpool export tank
}

step=$1
shift
"step_$step" "$@"
