# shellcheck shell=bash
# Functions for the guest's scripts that move a tree on two datasets to another pool. Sourced, never run. KEPT is a directory for what the tree
# was like; BEFORE the properties of its datasets, EVERYTHING the names of all datasets and snapshots.

MOUNT=/srv/db
KEPT=${KEPT:-/tmp}

# manifest FILE: files, directories and links of both datasets without object numbers and block sizes. Sockets, fifos and device nodes are not
# copied, so directories have other sizes.
manifest() {
    { tree list "db=$MOUNT"; tree list "log=$MOUNT/log"; } \
        | awk -F '\t' -v OFS='\t' '$3 == "file" || $3 ~ /link/ || $3 ~ /^dir/ { if ($3 ~ /^dir/) { $7 = "-"; $8 = "-" } $2 = "-"; $11 = "-"; print }' \
        | sort >"$1"
}

# unchanged TEXT: the tree must be the one of "$KEPT/before".
unchanged() {
    manifest "$KEPT/now"
    if cmp -s "$KEPT/before" "$KEPT/now" && [ -s "$KEPT/now" ]; then
        pass "$1: $(wc -l <"$KEPT/now") names with content and attributes unchanged"
    else
        fail "$1: $(diff "$KEPT/before" "$KEPT/now" | grep '^[-+]' | head -n 6 | cut -c 1-300 | tr '\n' '|')"
    fi
}

# block_sizes BYTES: the number of files of more than one block that have another block size.
block_sizes() { find "$MOUNT" -xdev -type f -exec stat -c '%o %s' {} + | awk -v size="$1" '$2 > size && $1 != size' | wc -l; }

properties() { zfs get -Hp -r -o name,property,value,source mountpoint,canmount,recordsize,compression,xattr,acltype tank; }

# places: the datasets that are mounted on the two directories.
places() { awk -v a="$MOUNT" -v b="$MOUNT/log" '$2 == a || $2 == b { print $1 }' /proc/mounts | sort | tr '\n' ' '; }

# shellcheck disable=SC2120  # new_pool.sh passes options.
move() { poolwright apply /disk/plan.json --new-pool fast --yes "$@"; }
# shellcheck disable=SC2120
undo() { poolwright undo /disk/plan.json --yes "$@"; }

# on_tank TEXT: the database is on its old datasets, and nothing is left of the move.
on_tank() {
    unchanged "$1"
    same "$1: the datasets are in their places" "$(places)" "tank/db tank/db/log "
    same "$1: properties and sources are as before" "$(properties)" "$BEFORE"
    same "$1: nothing is left" "$(zfs list -H -t all -o name | tr '\n' ' ') $(find /disk/state -name mnt)" "$EVERYTHING "
}

# make_pools SEED NODES: two pools, and the tree on two datasets of `tank`.
make_pools() {
    # The kernel mounts a snapshot below .zfs with `/usr/bin/env mount`.
    mkdir -p /usr/bin $MOUNT
    ln -sf /bin/busybox /usr/bin/env
    mkdir -p /disk/live
    truncate -s 3G /disk/live/pool /disk/live/other
    expect "a pool with ashift 9" zpool create -f -o ashift=9 -O mountpoint=none -O compression=lz4 -O xattr=sa -O acltype=posix tank /disk/live/pool
    expect "a pool with ashift 12" zpool create -f -o ashift=12 -O mountpoint=none fast /disk/live/other
    zfs create -o mountpoint=$MOUNT -o logbias=throughput tank/db
    zfs create tank/db/log
    expect "a tree of $2 nodes" tree make $MOUNT "$1" "$2"
    dd if=/dev/zero of=$MOUNT/holes bs=1 count=1 seek=5G 2>/dev/null
    yes "a row of a table" | head -c 20000000 >$MOUNT/table
    for n in $(seq 1 20); do yes "record $n" | head -c $((n * 40000)) >"$MOUNT/log/$n"; done
    touch -d '2003-04-05 06:07:08' $MOUNT/log/3 $MOUNT/log
    sed 's|@RECOMMENDED@|"recordsize":"16K","compression":"zstd-3"|' /disk/plan.template >/disk/plan.json
    BEFORE=$(properties)
    EVERYTHING=$(zfs list -H -t all -o name | tr '\n' ' ')
    printf '%s' "$BEFORE" >"$KEPT/properties"
    printf '%s' "$EVERYTHING" >"$KEPT/everything"
    manifest "$KEPT/before"
}
