# shellcheck shell=bash
# The guest's part of the part `arc`: scripts/test-kernel.sh runs this script in the guest. It replays the traces of /disk/traces in datasets
# with the settings of /disk/settings, and samples the kernel's counters. Each result is a line that starts with "pass" or "fail".
set -u
umask 022

export PATH=$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib HOME=/root
POOL=arcpool
PARAMETERS=/sys/module/zfs/parameters
LIMITS=()

pass() { printf 'pass\t%s\n' "$*"; }
fail() { printf 'fail\t%s\n' "$*"; }

# limit_arc BYTES MAX-RECORDSIZE: both limits, in steps: a maximum must be above the minimum when it is set. The ARC exceeds its limit by
# zfs_max_recordsize before OpenZFS evicts.
limit_arc() {
    echo "$2" >$PARAMETERS/zfs_max_recordsize
    echo $((32 << 20)) >$PARAMETERS/zfs_arc_min
    echo "$1" >$PARAMETERS/zfs_arc_max
    echo "$1" >$PARAMETERS/zfs_arc_min
    awk -v "limit=$1" '$1 == "c_max" || $1 == "c_min" { if ($3 != limit) exit 1 }' /proc/spl/kstat/zfs/arcstats
}

# new_arc: an ARC as the engine has it at its start: empty, with limits, and without what it has learned from the previous replay.
new_arc() {
    rmmod zfs && insmod /modules/zfs.ko || return
    for _ in 1 2 3 4 5; do [ -e /dev/zfs ] && break; sleep 1; done
    limit_arc "${LIMITS[@]}"
}

# sample FILE MARKER: appends a line with the time, the marker's time, the demand accesses and sizes of the ARC, and the bytes of the vdevs.
sample() {
    local marker arc bytes
    marker=$(stat -c %Y "$2" 2>/dev/null) || return 0
    arc=$(awk '$1 ~ /^demand_(data|metadata)_(hits|iohits|misses)$/ || $1 ~ /^(data|metadata|hdr|dbuf|mru|mfu)_size$/ || $1 == "size" || $1 == "memory_throttle_count" { printf "\t%s=%s", $1, $3 }' /proc/spl/kstat/zfs/arcstats)
    bytes=$(zpool get -Hp -o property,value write_bytes,read_bytes "$POOL" all-vdevs | awk '$2 != "-" { n[$1] += $2 } END { for (p in n) printf "\t%s=%s", p, n[p] }')
    printf '%s\t%s%s%s\n' "$(date +%s)" "$marker" "$arc" "$bytes" >>"$1"
}

# watch_replay FILE PLACE MARKER: samples until the process that replays ends.
watch_replay() {
    while [ ! -e /tmp/replayed ]; do
        sample "$1" "$(echo "$2"/poolwright-trial-*/"file$3")"
        sleep 0.7
    done
}

# replay_in DATASET TRACE MARKER OPTION...: replays a trace in a new dataset with these properties.
replay_in() {
    local name=$1 trace=$2 marker=$3 place=/mnt/$1 options=() option status=0
    shift 3
    for option in "$@"; do options+=(-o "$option"); done
    zfs create -o "mountpoint=$place" "${options[@]}" "$POOL/$name" || { fail "zfs create $POOL/$name"; return; }
    zpool export "$POOL"
    new_arc || { fail "$name: the ARC is not limited to ${LIMITS[0]} bytes"; return; }
    zpool import -d /disk "$POOL" || { fail "zpool import $POOL"; return; }
    rm -f /tmp/replayed
    watch_replay "/disk/$name.samples" "$place" "$marker" &
    poolwright replay "/disk/traces/$trace.parquet" --data "/disk/data/$trace" --dir "$place" --paced --json --scratch /scratch \
        >"/disk/$name.json" 2>/tmp/said || status=$?
    touch /tmp/replayed
    wait
    if [ $status -eq 0 ]; then
        pass "$name: replayed in the kernel's dataset"
    else
        fail "$name: replay gave $status: $(tail -n 5 /tmp/said | tr '\n' ' ')"
    fi
    zfs destroy "$POOL/$name"
}

# step_replay ARC-BYTES MAX-RECORDSIZE: /disk/settings has a line "NAME TRACE MARKER PROPERTY=VALUE..." for each replay.
step_replay() {
    local name trace marker options
    truncate -s 4G "/disk/$POOL"
    zpool create -f -o ashift=12 -O mountpoint=none -O atime=off "$POOL" "/disk/$POOL" || { fail "zpool create"; return; }
    LIMITS=("$@")
    # The copy of the files that a replay makes: in memory, because the emulated disk is slow.
    mkdir -p /scratch
    mount -t tmpfs -o size=1400M tmpfs /scratch
    while IFS=$'\t' read -r name trace marker options; do
        # shellcheck disable=SC2086 # one argument for each property
        replay_in "$name" "$trace" "$marker" $options </dev/null
        # After each, so that the results so far remain if the guest exceeds its time limit.
        (cd /disk && tar -cf /disk/arc.tar ./*.samples ./*.json && sync)
    done </disk/settings
    zpool export "$POOL"
}

step=$1
shift
"step_$step" "$@"
