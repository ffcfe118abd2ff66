# shellcheck shell=bash
# The guest's part of the tests of `poolwright apply` and `undo`: scripts/test-kernel.sh runs this script in the guest. Each result is
# a line that starts with "pass" or "fail". /disk has the program, its libraries and a plan.
set -u
umask 022

export PATH=$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/disk/state HOME=/root
POOL=tank
DATASET=$POOL/db
MOUNT=/srv/db
# Fields of the manifest that stay the same: the path, and all from the type on but the block size.
FIELDS=1,3-10,12-

# shellcheck source=scripts/vm/guest.sh
. /guest.sh

# manifest FILE: the tree without object numbers and block sizes.
manifest() { tree list "db=$MOUNT" | cut -f "$FIELDS" | sort >"$1"; }

# unchanged TEXT: the tree must be the one of /tmp/before.
unchanged() {
    manifest /tmp/now
    if cmp -s /tmp/before /tmp/now && [ -s /tmp/now ]; then
        pass "$1: $(wc -l </tmp/now) names with content and attributes unchanged"
    else
        fail "$1: $(diff /tmp/before /tmp/now | head -n 6 | cut -c 1-300 | tr '\n' '|')"
    fi
}

# block_sizes BYTES: the number of files of more than one block that have another block size.
block_sizes() { find "$MOUNT" -xdev -type f -exec stat -c '%o %s' {} + | awk -v size="$1" '$2 > size && $1 != size' | wc -l; }

properties() { zfs get -Hp -o property,value,source recordsize,compression,atime "$DATASET" "$DATASET/below" 2>/dev/null; }

# plan RECOMMENDED-JSON: writes the plan.
plan() { sed "s|@RECOMMENDED@|$1|" /disk/plan.template >/disk/plan.json; }

apply() { poolwright apply /disk/plan.json --yes "$@"; }
undo() { poolwright undo /disk/plan.json --yes "$@"; }

make_pool() {
    truncate -s "${1:-6G}" /disk/pool
    expect "the kernel makes a pool" zpool create -f -o ashift=12 -O mountpoint=none -O compression=lz4 -O xattr=sa -O acltype=posix \
        "$POOL" /disk/pool
    mkdir -p "$MOUNT"
}

# tree_and_back: a tree with everything that a file can have, applied, undone in both ways.
step_tree() {
    make_pool
    zfs create -o mountpoint=$MOUNT "$DATASET"
    zfs create -o mountpoint=/srv/below "$DATASET/below"
    expect "a tree of $2 nodes" tree make $MOUNT "$1" "$2"
    dd if=/dev/zero of=$MOUNT/holes bs=1 count=1 seek=5G 2>/dev/null
    yes "a row of a table" | head -c 40000000 >$MOUNT/table
    before=$(properties)
    manifest /tmp/before
    used=$(zfs get -Hp -o value used "$POOL")
    plan '"recordsize":"16K","compression":"zstd-3"'
    expect "apply --dry-run" poolwright apply /disk/plan.json --dry-run
    same "a dry run changes no property" "$(properties)" "$before"
    expect "apply" apply
    unchanged "after apply"
    same "every file has blocks of 16K" "$(block_sizes 16384)" 0
    same "the dataset below keeps its value" "$(zfs get -Hp -o value,source recordsize "$DATASET/below")" "131072	local"
    expect "apply again" apply
    same "it has nothing to do" "$(grep -c 'nothing to do' /tmp/said)" 1
    expect "undo, by a rollback" undo
    same "it rolled back" "$(grep -c 'rolled back' /tmp/said)" 1
    unchanged "after the rollback"
    same "properties and sources are as before" "$(properties)" "$before"
    expect "apply once more" apply
    touch -d '2001-01-01 00:00:00' $MOUNT/later
    manifest /tmp/before
    expect "undo, by rewriting" undo
    same "it rewrote" "$(grep -c 'files rewritten' /tmp/said)" 1
    unchanged "after rewriting"
    same "every file has blocks of 128K" "$(block_sizes 131072)" 0
    same "properties and sources are as before" "$(properties)" "$before"
    same "no snapshot is left" "$(zfs list -H -t snapshot | wc -l)" 0
    zpool sync
    sleep 3
    zpool sync
    now=$(zfs get -Hp -o value used "$POOL")
    if [ "$now" -le $((used + used / 50 + 4194304)) ]; then
        pass "the space is as before: $used, $now bytes"
    else
        fail "the space is not as before: $used, then $now bytes"
    fi
    expect "a scrub" zpool scrub -w "$POOL"
    same "the pool has no errors" "$(zpool status -x "$POOL")" "pool '$POOL' is healthy"
}

# Datasets in which apply must be right or refuse.
step_cases() {
    local size began
    make_pool 8G
    plan '"recordsize":"16K","compression":"lz4"'
    sed -i 's/"compression":"lz4",\{0,1\}//; s/,}/}/' /disk/plan.json

    echo "encrypted: a pass phrase" >/tmp/key
    expect "an encrypted dataset" zfs create -o encryption=on -o keyformat=passphrase -o keylocation=file:///tmp/key -o mountpoint=$MOUNT "$DATASET"
    yes "an encrypted row" | head -c 9000000 >$MOUNT/table
    manifest /tmp/before
    expect "apply on an encrypted dataset" apply
    unchanged "an encrypted dataset"
    same "blocks of 16K" "$(block_sizes 16384)" 0
    expect "undo" undo
    unchanged "an encrypted dataset, undone"

    expect "a snapshot and a clone" eval "zfs snapshot $DATASET@user && zfs clone -o mountpoint=/srv/clone $DATASET@user $POOL/clone"
    size=$(sha256sum </srv/clone/table)
    expect "apply on a dataset with a snapshot and a clone" apply
    unchanged "with a snapshot and a clone"
    same "the clone is untouched" "$(sha256sum </srv/clone/table)" "$size"
    same "the user's snapshot is untouched" "$(zfs list -H -o name "$DATASET@user")" "$DATASET@user"
    expect "a clone of the plan's snapshot" eval "zfs clone -o mountpoint=none \$(zfs list -H -o name -t snapshot $DATASET | grep poolwright) $POOL/held"
    refused "the snapshot with a clone is not discarded" "has a clone" undo --discard
    zfs destroy "$POOL/held"
    echo later >$MOUNT/later
    manifest /tmp/before
    expect "undo" undo
    unchanged "with a snapshot and a clone, undone"
    zfs destroy -R "$DATASET"

    zfs create -o mountpoint=$MOUNT -o recordsize=128K "$DATASET"
    yes "a row" | head -c 3000000 >$MOUNT/table
    expect "chattr +i" chattr +i $MOUNT/table
    refused "an immutable file" "is immutable" apply
    expect "chattr -i" chattr -i $MOUNT/table
    expect "chattr -p" chattr -p 7 $MOUNT/table
    zpool sync
    refused "a file with a project ID" "have project IDs (7)" apply
    expect "chattr -p 0" chattr -p 0 $MOUNT/table
    zpool sync
    exec 7>>$MOUNT/log
    refused "a process that writes" "is running" apply
    exec 7>&-
    rm $MOUNT/log
    zfs set recordsize=64K "$DATASET"
    refused "a property that has changed since the plan" "is 65536 now" apply
    zfs set recordsize=128K "$DATASET"
    zpool set failmode=continue "$POOL"
    zfs set quota=20M "$DATASET"
    head -c 12000000 /dev/urandom >$MOUNT/noise
    zpool sync
    refused "a dataset without enough space" "available" apply
    same "no snapshot is left" "$(zfs list -H -t snapshot | wc -l)" 0
    same "no property was changed" "$(zfs get -H -o value recordsize "$DATASET")" 128K
    zfs set quota=none "$DATASET"
    rm $MOUNT/noise

    mkdir $MOUNT/many
    for n in $(seq 1 "$1"); do echo "row $n" >"$MOUNT/many/$n"; done
    same "$1 small files" "$(find $MOUNT/many -type f | wc -l)" "$1"
    mkdir $MOUNT/linked
    for n in $(seq 1 200); do ln $MOUNT/table "$MOUNT/linked/$n"; done
    manifest /tmp/before
    began=$SECONDS
    expect "apply with $1 small files and 200 hard links" apply
    pass "it took $((SECONDS - began)) s: $(grep -m 1 'rewritten' /tmp/said)"
    unchanged "small files and hard links"
    same "the links are one file" "$(find $MOUNT -samefile $MOUNT/table | wc -l)" 201
    same "blocks of 16K" "$(block_sizes 16384)" 0
}

# database RECORDSIZE: unpacks the data directory of a database into a dataset.
database() {
    make_pool 6G
    database_system
    zfs create -o mountpoint=$MOUNT "$DATASET"
    database_files $MOUNT
    sed "s|@RECOMMENDED@|\"recordsize\":\"$1\",\"compression\":\"zstd-3\"|" "/disk/$SYSTEM.template" >/disk/plan.json
}

# A running database: applied offline and nearly online, undone, twice.
step_database() {
    # shellcheck source=scripts/vm/database.sh
    . /disk/database.sh
    SYSTEM=$1
    database "$2"
    postgres_service $MOUNT
    if [ "$SYSTEM" = mariadb ]; then
        start="as_database 'mariadbd --no-defaults --datadir=$MOUNT --socket=/tmp/socket --skip-networking --pid-file=/tmp/pid --lc-messages-dir=/disk/usr/share/mysql --lc-messages=en_US --character-sets-dir=/disk/usr/share/mysql/charsets --innodb-buffer-pool-size=64M >/tmp/log 2>&1 &'; for n in \$(seq 600); do mariadb --no-defaults -u root -S /tmp/socket -e 'SELECT 1' >/dev/null 2>&1 && exit 0; sleep 0.5; done; exit 1"
        stop="kill \$(cat /tmp/pid); for n in \$(seq 600); do [ -e /tmp/pid ] || exit 0; sleep 0.2; done; exit 1"
        { declare -f as_database; echo "$start"; } >/tmp/start.sh
        echo "$stop" >/tmp/stop.sh
    fi
    : >/tmp/committed
    expect "$SYSTEM starts" bash /tmp/start.sh || { tail -n 5 /tmp/log; return; }
    ROWS=$(sql "SELECT count(*) FROM t")
    same "it has rows" "$([ "$ROWS" -gt 1000 ] && echo yes)" yes
    refused "$SYSTEM runs: nothing is done without being told to stop it" "is running" apply
    before=$(properties)
    load &
    for mode in "" "--online"; do
        # shellcheck disable=SC2086
        expect "apply $mode" apply --stop "bash /tmp/stop.sh" --start "bash /tmp/start.sh" $mode
        pass "$(grep 'was stopped for' /tmp/said)"
        if [ "$SYSTEM" = postgres ]; then
            same "the log is a link" "$(readlink $MOUNT/pg_wal)" $MOUNT-wal
            same "it has a dataset of its own" "$(zfs get -H -o value mountpoint,recordsize,compression "$DATASET/pg_wal" | tr '\n' ' ')" "$MOUNT-wal 64K lz4 "
        fi
        same "every file has blocks of $2" "$(block_sizes $((${2%K} * 1024)))" 0
        intact "applied $mode"
        expect "it is applied" apply
        same "there is nothing to do" "$(grep -c 'nothing to do' /tmp/said)" 1
        # shellcheck disable=SC2086
        expect "undo $mode" undo --stop "bash /tmp/stop.sh" --start "bash /tmp/start.sh" $mode
        same "every file has blocks of 128K" "$(block_sizes 131072)" 0
        same "properties and sources are as before" "$(properties)" "$before"
        same "no snapshot is left" "$(zfs list -H -t snapshot | wc -l)" 0
        same "and no other dataset" "$(zfs list -H -o name | tr '\n' ' ')" "$POOL $DATASET "
        intact "undone $mode"
    done
    touch /tmp/enough
    wait
    expect "$SYSTEM stops" bash /tmp/stop.sh
    if [ "$SYSTEM" = postgres ]; then
        expect "pg_checksums" as_database "pg_checksums --check -D $MOUNT"
        pass "$(grep -i 'bad checksums' /tmp/said)"
    fi
}

step=$1
shift
"step_$step" "$@"
