# shellcheck shell=bash
# The guest's part of the part `backup`: scripts/test-kernel.sh runs this script in the guest. It makes, kills, lists, restores and
# removes backups of a PostgreSQL under load, whose data and log are on two of the kernel's datasets, and recovers it to a point in time, also
# from another pool.
# Each result is a line that starts with "pass" or "fail".
#
# usage: backup.sh backup BACKUPS
set -u
umask 022

# First the programs of the disk: setpriv of busybox cannot change the user.
export PATH=/disk/bin:$PATH LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/disk/state HOME=/root
POOL=tank
TO=$POOL/backup
MOUNT=/srv/backup
DATA=/srv/pg
LOG=/srv/wal
OTHER=other
WAL_MOUNT=/srv/wal-archive
# Each backup that was made, and the number of rows that were acknowledged before it.
declare -A ACKED=()

# shellcheck source=scripts/vm/guest.sh
. /guest.sh

as_postgres() { su -s /bin/bash postgres -c "export LD_LIBRARY_PATH=/disk/lib PATH=$PATH; cd /; $1"; }

sql() { as_postgres "psql -X -q -A -t -h /tmp -d postgres -c \"$1\""; }

# backup [ARGUMENT...]: makes a backup. The emulated guest of a busy machine needs a longer limit than a host.
backup() { poolwright backup run $DATA --to "$TO" --max-quiesced 15m "$@"; }

# of_database: the snapshots of the database's datasets.
of_database() { zfs list -H -t snapshot -o name | grep -c "^$POOL/\(data\|wal\)@"; }

# backups: the names of the backups, oldest first.
backups() { zfs list -H -t snapshot -o name -s createtxg "$TO" 2>/dev/null | cut -d @ -f 2; }

# properties DATASET...: with their sources, without those that reading or writing changes.
properties() {
    zfs get -Hp -o name,property,value,source all "$@" | awk -F '\t' '$4 != "-"'
}

# make_system: what the guest needs for a server and for snapshots that the kernel mounts.
make_system() {
    echo 'postgres:x:1000:1000::/tmp:/bin/bash' >>/etc/passwd
    echo 'postgres:x:1000:' >>/etc/group
    chmod 1777 /tmp
    mkdir -p /dev/shm /usr/lib /usr/share
    mount -t tmpfs tmpfs /dev/shm
    chmod 1777 /dev/shm
    ip link set lo up
    # The kernel mounts a snapshot below .zfs with `/usr/bin/env mount`.
    ln -sf /bin/busybox /usr/bin/env
    ln -s /disk/usr/lib/postgresql /usr/lib/postgresql
    ln -s /disk/usr/share/postgresql /usr/share/postgresql
    PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
    install_programs /disk/bin/* /usr/lib/postgresql/*/bin/*
}

make_pools() {
    truncate -s 6G /disk/pool
    truncate -s 2G /disk/other
    expect "the kernel makes a pool" zpool create -f -o ashift=12 -O mountpoint=none -O compression=lz4 -O atime=off $POOL /disk/pool
    expect "the kernel makes another pool" zpool create -f -o ashift=12 -O mountpoint=/other $OTHER /disk/other
    zfs create -o mountpoint=$DATA -o recordsize=8K $POOL/data
    zfs create -o mountpoint=$LOG $POOL/wal
}

# start_database TEXT: without full pages, as usual on ZFS. A backup must not depend on them.
start_database() {
    expect "$1" as_postgres \
        "pg_ctl -w -t 300 -D $DATA -l /tmp/log -o '-k /tmp -h \"\" -c full_page_writes=off -c shared_buffers=32MB' start" \
        || { tail -n 5 /tmp/log; return 1; }
}

stop_database() { expect "PostgreSQL stops" as_postgres "pg_ctl -w -t 300 -D $DATA -m fast stop"; }

# make_database: its data in one dataset, its log in another one.
make_database() {
    tar -xf /disk/postgres.tar -C $DATA
    mv $DATA/pg_wal $LOG/log
    ln -s $LOG/log $DATA/pg_wal
    chown -R 1000:1000 $DATA $LOG
    chmod 700 $DATA
    start_database "PostgreSQL starts" || return 1
    same "it has the tables of the load" "$(sql "SELECT count(*) FROM pgbench_accounts")" 100000
}

# transaction N: one of pgbench, which also inserts a numbered row, and prints the number after it is committed.
transaction() {
    local delta=$((RANDOM - 16384)) teller=$((RANDOM % 10 + 1)) account=$(((RANDOM * 32768 + RANDOM) % 100000 + 1))
    echo "BEGIN;"
    echo "UPDATE pgbench_accounts SET abalance = abalance + $delta WHERE aid = $account;"
    echo "UPDATE pgbench_tellers SET tbalance = tbalance + $delta WHERE tid = $teller;"
    echo "UPDATE pgbench_branches SET bbalance = bbalance + $delta WHERE bid = 1;"
    echo "INSERT INTO pgbench_history VALUES ($teller, 1, $account, $delta, now());"
    echo "INSERT INTO acked VALUES ($1);"
    echo "COMMIT;"
    printf '\\echo %s\n' "$1"
}

# load: one transaction after the other. /tmp/acked has the numbers of those that the server has acknowledged.
load() {
    local n=0 line
    coproc CLIENT { as_postgres "psql -X -q -A -t -v ON_ERROR_STOP=1 -h /tmp -d postgres"; }
    while [ ! -e /tmp/enough ]; do
        n=$((n + 1))
        transaction $n >&"${CLIENT[1]}"
        read -r line <&"${CLIENT[0]}"
        if [ "$line" != $n ]; then
            echo "transaction $n: '$line'" >/tmp/load.failed
            return 1
        fi
        echo $n >>/tmp/acked
        # An emulated guest needs time for other work.
        pause 0.5
    done
}

acknowledged() { tail -n 1 /tmp/acked; }

begin_load() {
    load &
    LOAD=$!
    until [ -s /tmp/acked ] && [ "$(acknowledged)" -gt 5 ]; do
        pause 0.2
        [ ! -e /tmp/load.failed ] || break
    done
}

end_load() {
    touch /tmp/enough
    wait "$LOAD"
    if [ -e /tmp/load.failed ]; then
        fail "the load failed: $(cat /tmp/load.failed)"
    else
        pass "$(acknowledged) transactions were committed meanwhile"
    fi
    stop_database
}

# invariants ROWS: the command for --check that succeeds if the load's transactions are there whole, and the first ROWS rows.
invariants() {
    local of balances='' table
    for table in accounts:a branches:b tellers:t; do
        of=${table#*:}
        balances+="(SELECT sum(${of}balance) FROM pgbench_${table%:*}) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history) AND "
    done
    echo "psql -X -q -A -t -d postgres -c \"SELECT $balances (SELECT count(*) FROM pgbench_accounts) = 100000 AND (SELECT count(*) FROM acked WHERE n <= $1) = $1 AND (SELECT count(*) = coalesce(max(n), 0) FROM acked)\" | grep -qx t"
}

# released TEXT: no session of Poolwright is left, or it ends soon.
released() {
    local waited=0
    while [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'poolwright'")" != 0 ]; do
        pause 1
        waited=$((waited + 1))
        [ $waited -lt 60 ] || { fail "$1: the database is still held after 60 s"; return; }
    done
    pass "$1: the database is released (after $waited s)"
}

# refusals_before: what must be refused before a dataset of backups exists.
refusals_before() {
    local before
    before=$(zfs list -H -t all -o name)
    refused "a dataset that would not be mounted" "mount" backup
    same "it is not left behind" "$(zfs list -H -t all -o name)" "$before"
    zfs destroy "$TO" 2>/dev/null
    refused "the database's own dataset" "holds the database itself" poolwright backup run $DATA --to $POOL/data
    refused "the root dataset of a pool" "root dataset" poolwright backup run $DATA --to $OTHER
    refused "directories on two pools" "no snapshot is atomic over two pools" poolwright backup run $DATA /other --to $TO --mountpoint $MOUNT
    refused "a mount point that is not empty" "is not empty" backup --mountpoint /disk
    expect "a dry run" backup --mountpoint $MOUNT --dry-run
    same "it names both datasets" "$(grep -c "on $POOL/\(data\|wal\)$" /tmp/said)" 2
    same "nothing of this creates a dataset or a snapshot" "$(zfs list -H -t all -o name)" "$before"
}

# make_backup TEXT ARGUMENT...: makes a backup that must succeed, and remembers how many rows it must have.
make_backup() {
    local text=$1 before began=$SECONDS name
    shift
    before=$(acknowledged)
    expect "$text" backup "$@" || return 1
    name=$(backups | tail -n 1)
    ACKED[$name]=$before
    pass "$name in $((SECONDS - began)) s: $(grep -o 'quiesced for [0-9.]* s' /tmp/said), $(zfs get -Hp -o value written "$TO@$name") of $(zfs get -Hp -o value referenced "$TO@$name") bytes written"
    released "$name"
    same "$name: no snapshot of the database is left" "$(of_database)" 0
}

# digests: a digest of the content and the attributes of each backup that is in ACKED.
digests() {
    local name
    for name in "${!ACKED[@]}"; do
        tree list "backup=$MOUNT/.zfs/snapshot/$name" | sort >/tmp/listed
        # The root directory of a mounted snapshot has a number of its mount.
        echo "$name $(wc -l </tmp/listed) $(sed 's/^backup:\/\t[0-9]*/backup:\/\t-/' /tmp/listed | sha256sum)"
    done | sort
}

# signalled STAGE SECONDS SIGNAL: starts a backup, sends a signal to it so long after this stage has begun, and sets STATUS.
signalled() {
    local pid
    : >/tmp/stages
    # Not by a function, whose process would be that of the shell.
    poolwright backup run $DATA --to "$TO" --max-quiesced 15m >/dev/null 2>/tmp/stages &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        case $(</tmp/stages) in *"$1"*) break ;; esac
        pause 0.005
    done
    pause "$2"
    kill "-$3" $pid 2>/dev/null
    STATUS=0
    wait $pid 2>/dev/null || STATUS=$?
}

# interruptions: backups that are killed in each of their stages.
interruptions() {
    local stage seconds before after was
    before=$(digests)
    while IFS=, read -r stage seconds; do
        was=$(backups | wc -l)
        signalled "$stage" "$seconds" KILL
        after=$(backups | wc -l)
        if [ $STATUS -eq 137 ] && [ "$after" -le $((was + 1)) ]; then
            pass "killed $seconds s after '$stage' began: $((after - was)) backups more, $(of_database) snapshots of the database are left"
        else
            fail "killed $seconds s after '$stage' began: status $STATUS, $was backups before and $after after: $(tail -n 3 /tmp/stages)"
        fi
        released "killed while $stage"
    done <<'END'
quiescing the database,0
quiescing the database,0.4
taking the snapshot,0
releasing the database,0
copying,0.1
copying,2.5
comparing the copy,0.5
completing the backup,0
END
    signalled copying 0.5 INT
    same "Ctrl-C while copying: status" $STATUS 130
    same "Ctrl-C while copying: no snapshot of the database is left" "$(of_database)" 0
    released "Ctrl-C while copying"
    same "the backups from before the interruptions are unchanged" "$(digests)" "$before"
}

# layout: the datasets, their properties and block sizes are those that the manual describes.
layout() {
    local others
    same "the dataset of backups has its properties" "$(zfs get -H -o property,value,source recordsize,compression,logbias "$TO" | tr '\t\n' '= ')" \
        "recordsize=1M=local compression=zstd=local logbias=throughput=local "
    same "only its owner can read it" "$(stat -c '%a %u' $MOUNT)" "700 0"
    same "the datasets" "$(zfs list -H -o name -r $POOL | tr '\n' ' ')" "$POOL $TO $POOL/data $POOL/wal "
    same "the properties of the database's datasets are unchanged" "$(properties $POOL/data $POOL/wal)" "$PROPERTIES"
    others=$(find $MOUNT/files -xdev -type f -size +1024k -exec stat -c '%o' {} + | sort | uniq -c | sed 's/^ *//')
    case $others in
        *" 1048576") same "each of ${others% *} files of more than 1M has blocks of 1M" "${others#* }" 1048576 ;;
        *) fail "files of more than 1M have blocks of (number, bytes): $(echo "$others" | tr '\n' ',')" ;;
    esac
    same "the database's own files have blocks of 8K" "$(find $DATA -xdev -type f -size +8k -exec stat -c '%o' {} + | sort -u)" 8192
    same "both directories are in it" "$(cd $MOUNT/files && echo *)" "0 1"
    same "the log is a link there too" "$(readlink $MOUNT/files/0/pg_wal)" $LOG/log
}

# verified NAME: restores a backup, starts the database there, and expects that each check was run and passed.
verified() {
    local began=$SECONDS check
    expect "$1 is restored, and started" poolwright backup verify "$TO" "$1" --check "$(invariants "${ACKED[$1]}")" || return 0
    pass "$1: $(grep -o 'restored in .* s' /tmp/said), $((SECONDS - began)) s together"
    for check in files "start and recovery" pg_amcheck pg_dumpall psql shutdown pg_checksums; do
        grep -q "^  passed   $check" /tmp/said || fail "$1: $check: $(grep "$check" /tmp/said)"
    done
    same "$1: checks that passed" "$(grep -c '^  passed' /tmp/said)" 7
    same "$1: no scratch directory is left" "$(find /dev/shm /tmp -maxdepth 1 -name 'poolwright-restore*')" ""
    poolwright backup list "$TO" >/tmp/said 2>&1
    same "$1: the list has the result" "$(grep -c "^ *$1 .*passed" /tmp/said)" 1
}

# archive_segment: ends the present segment of the log. SEGMENT is its archived copy.
archive_segment() {
    local waited=0
    SEGMENT=$WAL_MOUNT/$(sql "SELECT pg_walfile_name(pg_switch_wal())")
    while [ ! -e "$SEGMENT" ]; do
        pause 1
        waited=$((waited + 1))
        [ $waited -lt 120 ] || { fail "$SEGMENT is not archived: $(sql "TABLE pg_stat_archiver"), $(tail -n 3 /tmp/log)"; return 1; }
    done
    pass "a segment is archived"
}

# recovers TEXT ROWS TIMELINE: the restored database starts, has so many rows, and archives a timeline of its own.
recovers() {
    start_database "$1" || return
    until [ "$(sql "SELECT pg_is_in_recovery()")" = f ]; do pause 1; done
    same "$1: the rows" "$(sql "SELECT count(*) FROM acked")" "$2"
    archive_segment
    same "it archives a timeline of its own" "$(basename "$SEGMENT" | cut -c 1-8)" "$3"
    stop_database
}

# replicated: the backups and the archived log are sent to another pool. The database runs, and is stopped.
replicated() {
    local name
    expect "the WAL archive is sent to another pool" poolwright backup send $POOL/wal-archive --to $OTHER/wal
    same "it names the last segment" "$(tail -n 1 /tmp/said)" "the last segment on $OTHER/wal is ${SEGMENT##*/}"
    expect "the backups are sent there" poolwright backup send "$TO" --to $OTHER/replica
    sql "CREATE TABLE later (n int)"
    archive_segment || return
    stop_database
    expect "what has changed is sent" poolwright backup send $POOL/wal-archive --to $OTHER/wal
    same "since a bookmark" "$(grep -c "^sent .*, changes since $POOL/wal-archive#poolwright-sent-" /tmp/said)" 1
    zfs mount $OTHER/replica
    zfs mount $OTHER/wal
    for name in "$WAL_MOUNT"/0*; do cmp "$name" "/other/wal/${name##*/}" || fail "$name"; done
    expect "the list of the replicas" poolwright backup list $OTHER/replica --wal $OTHER/wal
    same "it tells from which backup on" "$(grep -c "any state since $(backups | tail -n 1) can be restored" /tmp/said)" 1
    zfs unmount $POOL/wal-archive
    expect "the last state is restored from the replicas" poolwright backup verify $OTHER/replica --until latest --wal $OTHER/wal \
        --check "psql -X -q -A -t -d postgres -c 'SELECT count(*) FROM later' | grep -qx 0"
    zfs mount $POOL/wal-archive
}

# kept_for_replica: the backup that a replica has newest stays until it has a newer one, and with it the log.
kept_for_replica() {
    local sent
    sent=$(backups | tail -n 1)
    start_database "PostgreSQL starts once more" || return
    expect "a backup that is not sent yet" backup
    archive_segment || return
    ROWS=$(sql "SELECT count(*) FROM acked")
    stop_database
    expect "the backup is restored" poolwright backup verify "$TO"
    expect "prune --keep 1" poolwright backup prune "$TO" --keep 1
    same "the one that the replica has stays" "$(grep -c "^keep *$sent: .*poolwright-sent-" /tmp/said)" 1
    expect "the next backup is sent" poolwright backup send "$TO" --to $OTHER/replica
    expect "prune --keep 1" poolwright backup prune "$TO" --keep 1
    listed "then it goes" 1
    expect "the log is sent" poolwright backup send $POOL/wal-archive --to $OTHER/wal
}

# lost_host: without the first pool, the database is restored from the replicas, and archives into one of them.
lost_host() {
    expect "the first pool can be exported" zpool export $POOL
    zfs create -o mountpoint=$DATA -o recordsize=8K $OTHER/data
    zfs create -o mountpoint=$LOG $OTHER/log
    expect "the last state is restored for use" poolwright backup restore $OTHER/replica --until latest --wal $OTHER/wal
    zfs set readonly=off canmount=on $OTHER/replica
    zfs set readonly=off canmount=on $OTHER/wal
    expect "the replica becomes the WAL archive" poolwright backup wal-create $OTHER/replica --to $OTHER/wal
    grep '^archive_' /tmp/said >>$DATA/postgresql.auto.conf
    WAL_MOUNT=/other/wal
    recovers "PostgreSQL starts from the replicas" "$ROWS" 00000003
}

# point_in_time: the log is archived into a dataset of its own, and states before and after a mistake are recovered.
point_in_time() {
    local rows before
    refused "a WAL archive below the dataset of the backups" "in the dataset of the backups" \
        poolwright backup wal-create "$TO" --to "$TO/wal" --mountpoint $WAL_MOUNT
    expect "a WAL archive is made" poolwright backup wal-create "$TO" --to $POOL/wal-archive --mountpoint $WAL_MOUNT
    grep '^archive_' /tmp/said >>$DATA/postgresql.auto.conf
    same "its settings are three" "$(grep -c '^archive_' $DATA/postgresql.auto.conf)" 3
    same "it belongs to the owner of the database" "$(stat -c '%a %u' $WAL_MOUNT)" "700 1000"
    same "its properties" "$(zfs get -H -o property,value,source recordsize,compression,logbias $POOL/wal-archive | tr '\t\n' '= ')" \
        "recordsize=1M=local compression=zstd=local logbias=throughput=local "
    start_database "PostgreSQL starts, and archives" || return
    refused "a recovery of a backup from before that" "does not have" poolwright backup verify "$TO" --until latest
    expect "a backup" backup
    sql "INSERT INTO acked SELECT max(n) + 1 FROM acked"
    rows=$(sql "SELECT count(*) FROM acked")
    sql "SELECT pg_sleep(3)"
    before=$(sql "SELECT to_char((now() - interval '1 s') AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')" | tr ' ' T)Z
    sql "SELECT pg_sleep(3)"
    sql "DELETE FROM acked"
    archive_segment || return
    replicated || return
    expect "the state before the mistake is restored" poolwright backup verify "$TO" --until "$before" --check "$(invariants "$rows")"
    same "all checks passed" "$(grep -c '^  passed' /tmp/said)" 7
    same "the time is named" "$(grep -c "until: $before; last transaction: 2" /tmp/said)" 1
    expect "the last state is restored" poolwright backup verify "$TO" --until latest \
        --check "psql -X -q -A -t -d postgres -c 'SELECT count(*) FROM acked' | grep -qx 0"
    expect "the list" poolwright backup list "$TO"
    same "it has the segments" "$(grep -c "^WAL archive $POOL/wal-archive: [1-9]" /tmp/said)" 1
    same "it tells from which backup on" "$(grep -c "any state since $(backups | tail -n 1) can be restored" /tmp/said)" 1
    expect "the WAL archive is unmounted" zfs unmount $POOL/wal-archive
    refused "a segment for an archive that is not mounted" "not a WAL archive" \
        as_postgres "poolwright backup wal-push $WAL_MOUNT $LOG/log/${SEGMENT##*/}"
    same "nothing is written to the mount point" "$(find $WAL_MOUNT -mindepth 1)" ""
    expect "it is mounted again" zfs mount $POOL/wal-archive

    # For use: into the database's own datasets, which are emptied.
    refused "a restore over the database" "is not empty" poolwright backup restore "$TO" --until "$before"
    rm -rf ${DATA:?}/* $LOG/log
    same "the database's directory is empty" "$(ls -A $DATA)" ""
    expect "the state before the mistake is restored for use" poolwright backup restore "$TO" --until "$before"
    same "the datasets' root belongs to the owner of the database" "$(stat -c '%a %u' $DATA)" "700 1000"
    recovers "PostgreSQL starts on the state before the mistake" "$rows" 00000002
}

# listed TEXT NUMBER: `list` and `zfs list` have this number of backups.
listed() {
    poolwright backup list "$TO" --json >/tmp/said 2>&1
    same "$1: backups in zfs list and in backup list" "$(backups | wc -l) $(grep -o '"backup_label"' /tmp/said | wc -l)" "$2 $2"
}

# retention OLDEST: `prune` removes what the rules do not keep, also snapshots that are mounted below .zfs.
retention() {
    local all
    all=$(backups | wc -l)
    zfs hold user "$TO@$1"
    expect "prune --dry-run" poolwright backup prune "$TO" --keep 1 --dry-run
    listed "a dry run removes nothing" "$all"
    expect "prune --keep 2" poolwright backup prune "$TO" --keep 2
    same "it says why the held one stays" "$(grep -c "$1: .*held" /tmp/said)" 1
    listed "two and the held one stay" 3
    zfs release user "$TO@$1"
    expect "a clone" zfs clone -o mountpoint=none "$TO@$1" $POOL/clone
    expect "prune --keep 1" poolwright backup prune "$TO" --keep 1
    same "it says why the one with a clone stays" "$(grep -c "$1: .*clone" /tmp/said)" 1
    listed "one and the one with a clone stay" 2
    zfs destroy $POOL/clone
    expect "prune --keep 1" poolwright backup prune "$TO" --keep 1
    listed "one stays" 1
}

# elsewhere: a backup in another pool, at the place that the kernel chooses.
elsewhere() {
    expect "a backup in another pool" poolwright backup run $DATA --to $OTHER/backup --max-quiesced 15m
    same "it is mounted below its pool" "$(zfs get -H -o value mounted,mountpoint $OTHER/backup | tr '\n' ' ')" "yes /other/backup "
    same "it has a backup" "$(zfs list -H -t snapshot -o name $OTHER/backup | wc -l)" 1
    same "no snapshot of the database is left" "$(of_database)" 0
}

step_backup() {
    local n first
    make_system
    make_pools
    make_database || return
    PROPERTIES=$(properties $POOL/data $POOL/wal)
    begin_load
    refusals_before
    make_backup "the first backup" --mountpoint $MOUNT || return
    first=$(backups)
    layout
    for n in $(seq 2 "$1"); do make_backup "backup $n of $1"; done
    listed "the backups" "$1"
    expect "prune --keep 1" poolwright backup prune "$TO" --keep 1
    listed "while none has passed a restore, all stay" "$1"
    verified "$first"
    interruptions
    make_backup "the backup after the interruptions"
    elsewhere
    end_load
    verified "$(backups | tail -n 1)"
    point_in_time
    # A recovery to a point in time does not count as a restore of the backup.
    expect "the newest backup is restored" poolwright backup verify "$TO"
    retention "$first"
    expect "prune --keep 1 once more" poolwright backup prune "$TO" --keep 1
    same "it tells of the WAL archive" "$(grep -c "WAL archive $POOL/wal-archive: .*needed from" /tmp/said)" 1
    kept_for_replica
    expect "a scrub" zpool scrub -w $POOL
    same "the pool has no errors" "$(zpool status -x $POOL)" "pool '$POOL' is healthy"
    lost_host
    expect "a scrub" zpool scrub -w $OTHER
    same "the pool has no errors" "$(zpool status -x $OTHER)" "pool '$OTHER' is healthy"
    expect "the pool can be exported" zpool export $OTHER
}

step=$1
shift
"step_$step" "$@"
