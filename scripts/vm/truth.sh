# shellcheck shell=bash
# The guest's part of `truth.sh` (scripts/truth/guest.sh): runs a database in a dataset of a kernel's pool, or on ext4 on a volume, in the
# guest's own time.
# /disk has the programs, the database's files (database/), the workload's scripts, and the results when the guest ends.
set -u
umask 022

export PATH=/disk/bin:$PATH HOME=/root TMPDIR=/scratch POOLWRIGHT_ROOT=/disk/poolwright
POOL=tank
DEVICE=nullb0
# The device of the only volume. There is no udev, which would link it to /dev/zvol.
VOLUME=/dev/zd0
CGROUPS=0

# shellcheck source=scripts/vm/guest.sh
. /guest.sh
# Sets WORKLOAD, SIZE, GUEST_DATA, GUEST_SCRATCH, ARC_BYTES, DIRTY_BYTES, DEVICE_NS, DEVICE_GB, DEPTH, CLIENTS, WARM (seconds),
# VOLUME_MIB (0: none), MEMORY_MIB, REPLAY_OPTIONS.
# shellcheck disable=SC1091
. /disk/options
# Defines workload_start, workload_load and workload_stop.
# shellcheck source=scripts/vm/truth_mariadb.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_$WORKLOAD.sh"

# prepare: what a Debian system would have, and a disk in memory that completes a request DEVICE_NS after it arrived.
prepare() {
    local tree
    install_programs /disk/bin/*
    ln -sf /bin/env /usr/bin/env
    mkdir -p /usr/share /usr/sbin /scratch "$GUEST_DATA" "$GUEST_SCRATCH" /etc /dev/shm
    for tree in /disk/usr/*/* /disk/etc/*; do [ ! -e "$tree" ] || ln -sfn "$tree" "${tree#/disk}"; done
    printf '%s\n' root:x:0:0:root:/root:/bin/sh daemon:x:1:1:daemon:/:/bin/sh >/etc/passwd
    mount -t tmpfs -o size=75% tmpfs /scratch
    mount -t tmpfs tmpfs /dev/shm
    mount -t tracefs tracefs /sys/kernel/tracing
    # Reading the disk takes the host's time.
    cp -a /disk/database /disk/poolwright-program /scratch/
    insmod /disk/modules/configfs.ko
    insmod /disk/modules/null_blk.ko nr_devices=1 gb="$DEVICE_GB" bs=512 memory_backed=1 discard=1 queue_mode=2 submit_queues=1 \
        hw_queue_depth="$DEPTH" irqmode=2 completion_nsec="$DEVICE_NS" || exit 1
    # zpool would write a partition table to a whole disk, and wait for udev.
    printf 'o\nn\np\n1\n2048\n\nw\n' | fdisk /dev/$DEVICE >/dev/null 2>&1
    partprobe /dev/$DEVICE
    [ -b /dev/${DEVICE}p1 ] || { fail "the disk has no partition"; exit 1; }
    # OpenZFS ignores a limit below its least size, which is a part of the memory by default.
    echo $((32 << 20)) >/sys/module/zfs/parameters/zfs_arc_min
    echo "$ARC_BYTES" >/sys/module/zfs/parameters/zfs_arc_max
    [ "$(awk '$1 == "c_max" { print $3 }' /proc/spl/kstat/zfs/arcstats)" = "$ARC_BYTES" ] || { fail "the ARC's limit was not taken"; exit 1; }
    echo "$DIRTY_BYTES" >/sys/module/zfs/parameters/zfs_dirty_data_max
    [ "$VOLUME_MIB" -gt 0 ] || return 0
    mkdir -p /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control
}

# limit_memory: what this shell starts from now on has the memory of the database only. Each run has its own control group, because memory
# that a run has left behind would still count.
limit_memory() {
    [ "$VOLUME_MIB" -gt 0 ] || return 0
    CGROUPS=$((CGROUPS + 1))
    mkdir /sys/fs/cgroup/db$CGROUPS
    echo $((MEMORY_MIB << 20)) >/sys/fs/cgroup/db$CGROUPS/memory.max || { fail "no limit of memory"; exit 1; }
    echo $$ >/sys/fs/cgroup/db$CGROUPS/cgroup.procs
}

# unlimit_memory: what this shell starts from now on has all memory.
unlimit_memory() { [ "$VOLUME_MIB" = 0 ] || echo $$ >/sys/fs/cgroup/cgroup.procs; }

# memory_killed: why a load failed, if processes were killed because of the limit.
memory_killed() { [ "$VOLUME_MIB" = 0 ] || grep '^oom_kill ' /sys/fs/cgroup/db$CGROUPS/memory.events; }

# sample FILE: the time, and counters of the machine, the disk, the processes and the pool.
sample() {
    {
        echo "uptime $(cut -d ' ' -f 1 /proc/uptime)"
        grep '^cpu ' /proc/stat
        echo "ctxt $(sed -n 's/^ctxt //p' /proc/stat)"
        echo "disk $(cat /sys/block/$DEVICE/stat)"
        for kstat in arcstats zil dmu_tx $POOL/iostats zfetchstats; do
            awk -v kstat="$kstat" 'NR > 2 && NF == 3 { print kstat ":" $1, $3 }' "/proc/spl/kstat/zfs/$kstat"
        done
        # User and system time by the name of the process, in ticks.
        cat /proc/[0-9]*/stat 2>/dev/null | sed 's/^[0-9]* (\([^)]*\)) /\1 /' | awk '{ n = split($0, f, " "); k = f[1]; u[k] += f[n - 38]; s[k] += f[n - 37] }
            END { for (k in u) print "process:" k, u[k], s[k] }'
    } >"$1"
}

# destroy: the pool, if there is one.
destroy() {
    umount $VOLUME 2>/dev/null
    zpool destroy -f $POOL 2>/dev/null
}

# make_volume OPTION...: a volume with ext4.
make_volume() {
    zfs create -s -V "${VOLUME_MIB}M" "$@" $POOL/db || return 1
    for _ in $(seq 100); do
        [ ! -b $VOLUME ] || break
        sleep 0.1
    done
    # No thread of ext4 initializes the rest later.
    /disk/bin/mke2fs -q -F -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 $VOLUME || return 1
    mount -t ext4 -o noatime $VOLUME "$GUEST_DATA"
}

# database PROPERTIES: a new pool with the database's files.
database() {
    local options=() one
    destroy
    blkdiscard -f /dev/${DEVICE}p1 2>/dev/null
    for one in $1; do options+=(-o "$one"); done
    zpool create -f -o ashift=12 -O mountpoint=none -O atime=off $POOL /dev/${DEVICE}p1 || return 1
    if [ "$VOLUME_MIB" -gt 0 ]; then
        make_volume "${options[@]}" || return 1
    else
        zfs create -o "mountpoint=$GUEST_DATA" "${options[@]}" $POOL/db || return 1
    fi
    cp -a /scratch/database/. "$GUEST_DATA/" || return 1
    sync
    [ "$VOLUME_MIB" = 0 ] || echo 1 >/proc/sys/vm/drop_caches
    zpool sync
}

# load SECONDS NAME: starts the load. LOAD is its process.
load() {
    workload_load "$GUEST_DATA" "$GUEST_SCRATCH" "$1" >"/scratch/$2.log" 2>"/disk/$2.load" &
    LOAD=$!
}

# measure SECONDS NAME PROPERTIES: runs the database and measures it.
measure() {
    local name=$2
    database "$3" || { fail "$name: no dataset"; return; }
    limit_memory
    workload_start "$GUEST_DATA" "$GUEST_SCRATCH" >/tmp/said 2>&1 || { unlimit_memory; fail "$name: $(tail -n 3 /tmp/said)"; return; }
    zpool sync
    sample "/disk/$name.0"
    load $((WARM + $1 + 1)) "$name"
    unlimit_memory
    sleep "$WARM"
    sample "/disk/$name.1"
    sleep "$1"
    sample "/disk/$name.2"
    wait $LOAD || fail "$name: the load ended with status $?: $(tail -n 3 "/disk/$name.load") $(memory_killed) $(tail -n 5 "$GUEST_SCRATCH"/*.log)"
    zpool sync
    sample "/disk/$name.3"
    mv "/scratch/$name.log" /disk/
    zfs get -Hp -o value referenced $POOL/db >"/disk/$name.space"
    workload_stop "$GUEST_DATA" "$GUEST_SCRATCH" >/tmp/said 2>&1 || fail "$name: $(tail -n 3 /tmp/said)"
    sync
    pass "$name: $(($(stat -c %s "/disk/$name.log") / 16)) transactions in $((WARM + $1 + 1)) s"
}

# step_measure SECONDS ROUNDS: each setting of /disk/settings, a line with a name and properties.
step_measure() {
    local round name properties
    for round in $(seq "$2"); do
        while read -r name properties; do
            measure "$1" "$name.$round" "$properties"
        done </disk/settings
    done
    destroy
}

# step_record SECONDS: records the database with the first setting.
step_record() {
    local name properties subject=(--dir "$GUEST_DATA")
    [ "$VOLUME_MIB" = 0 ] || subject=(--zvol "$VOLUME")
    read -r name properties </disk/settings
    database "$properties" || exit 1
    limit_memory
    workload_start "$GUEST_DATA" "$GUEST_SCRATCH" >/tmp/said 2>&1 || { fail "$name: $(tail -n 3 /tmp/said)"; exit 1; }
    # The load must outlive the recorder, which measures the processor before and codecs after it has recorded.
    load $((WARM + $1 + 25)) recorded
    unlimit_memory
    sleep "$WARM"
    sample /disk/recorded.1
    expect "record" /scratch/poolwright-program record --force "${subject[@]}" --for "$1s" -o /disk/trace.parquet
    sample /disk/recorded.2
    kill -0 $LOAD || fail "the load ended before the recorder"
    wait $LOAD || fail "the load ended with status $?: $(tail -n 3 /disk/recorded.load)"
    mv /scratch/recorded.log /disk/
    workload_stop "$GUEST_DATA" "$GUEST_SCRATCH" >/tmp/said 2>&1 || fail "$(tail -n 3 /tmp/said)"
    destroy
}

# step_predict: predicts each setting from the recording.
step_predict() {
    local name properties one options data=(--data /scratch/database)
    cp /disk/trace.parquet /scratch/
    if [ "$VOLUME_MIB" -gt 0 ]; then
        # The data of a volume is read from its device, as it was when the load began.
        read -r name properties </disk/settings
        database "$properties" || exit 1
        umount $VOLUME
        data=()
    fi
    while read -r name properties; do
        options=()
        for one in $properties; do options+=(-o "$one"); done
        # shellcheck disable=SC2086 # words
        if /scratch/poolwright-program replay /scratch/trace.parquet ${data[@]+"${data[@]}"} $REPLAY_OPTIONS --scratch /scratch \
            "${options[@]}" --json >"/disk/$name.json" 2>"/disk/$name.said" </dev/null; then
            pass "$name: predicted"
        else
            rm "/disk/$name.json"
            fail "$name: $(tail -n 3 "/disk/$name.said" | tr '\n' ' ')"
        fi
    done </disk/settings
}

prepare
step=$1
shift
"step_$step" "$@"
