# shellcheck shell=bash
# The guest's part of `truth.sh --guest` (scripts/truth/guest.sh): runs a database in datasets of a kernel's pool, in the guest's own time.
# /disk has the programs, the database's files (database/), the workload's scripts, and the results when the guest ends.
set -u
umask 022

export PATH=/disk/bin:$PATH HOME=/root TMPDIR=/scratch
POOL=tank
DEVICE=nullb0
DATA=/srv/db
SERVER=/srv/server
WORKLOAD=/disk/poolwright/workloads/mariadb

# shellcheck source=scripts/vm/guest.sh
. /guest.sh
# Sets ARC_BYTES, DIRTY_BYTES, DEVICE_NS, DEVICE_GB, DEPTH, THREADS, WARM (seconds).
# shellcheck disable=SC1091
. /disk/options

# prepare: what a Debian system would have, and a disk in memory that completes a request DEVICE_NS after it arrived.
prepare() {
    install_programs /disk/bin/*
    ln -sf /bin/env /usr/bin/env
    # server.sh asks for it, and does not run it: there is a database.
    ln -sf /bin/true /bin/mariadb-install-db
    mkdir -p /usr/share /scratch "$DATA" "$SERVER/tmp" /etc
    ln -sfn /disk/usr/share/mysql /usr/share/mysql
    echo 'root:x:0:0:root:/root:/bin/sh' >/etc/passwd
    mount -t tmpfs -o size=75% tmpfs /scratch
    mount -t tracefs tracefs /sys/kernel/tracing
    # Reading the disk takes the host's time.
    cp -r /disk/database /disk/poolwright-program /scratch/
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
}

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

# database PROPERTIES: a new pool and dataset with the database's files.
database() {
    local options=() one
    zpool destroy -f $POOL 2>/dev/null
    blkdiscard -f /dev/${DEVICE}p1 2>/dev/null
    for one in $1; do options+=(-o "$one"); done
    zpool create -f -o ashift=12 -O mountpoint=none -O atime=off $POOL /dev/${DEVICE}p1 || return 1
    zfs create -o mountpoint=$DATA "${options[@]}" $POOL/db || return 1
    cp -r /scratch/database/. $DATA/ || return 1
    zpool sync
}

start_server() {
    cp /disk/my.cnf $SERVER/my.cnf
    $WORKLOAD/server.sh start $SERVER
}

stop_server() { $WORKLOAD/server.sh stop $SERVER; }

# load SECONDS NAME: starts the load. LOAD is its process.
load() {
    $WORKLOAD/load.sh $SERVER --time "$1" --threads "$THREADS" --log "/scratch/$2.log" >"/disk/$2.load" 2>&1 &
    LOAD=$!
}

# measure SECONDS NAME PROPERTIES: runs the database and measures it.
measure() {
    local name=$2
    database "$3" || { fail "$name: no dataset"; return; }
    start_server >/tmp/said || { fail "$name: $(tail -n 3 /tmp/said)"; return; }
    zpool sync
    sample "/disk/$name.0"
    load $((WARM + $1 + 1)) "$name"
    sleep "$WARM"
    sample "/disk/$name.1"
    sleep "$1"
    sample "/disk/$name.2"
    wait $LOAD || fail "$name: the load ended with status $?"
    zpool sync
    sample "/disk/$name.3"
    cat /scratch/"$name".log.* >"/disk/$name.log"
    zfs get -Hp -o value referenced $POOL/db >"/disk/$name.space"
    stop_server >/dev/null
    sync
    pass "$name: $(sed -n 's/^ *transactions: *//p' "/disk/$name.load")"
}

# step_measure SECONDS ROUNDS: each setting of /disk/settings, a line with a name and properties.
step_measure() {
    local round name properties
    for round in $(seq "$2"); do
        while read -r name properties; do
            measure "$1" "$name.$round" "$properties"
        done </disk/settings
    done
    zpool destroy -f $POOL
}

# step_record SECONDS: records the database with the first setting.
step_record() {
    local name properties
    read -r name properties </disk/settings
    database "$properties" || exit 1
    start_server >/tmp/said || exit 1
    load 600 "$name"
    sleep "$WARM"
    sample /disk/recorded.1
    expect "record" /scratch/poolwright-program record --force --dir $DATA --for "$1s" -o /disk/trace.parquet
    sample /disk/recorded.2
    # A shell without job control makes its background processes ignore SIGINT.
    kill $LOAD
    stop_server
    zpool destroy -f $POOL
}

# step_predict: predicts each setting from the recording, on the guest's processor.
step_predict() {
    local name properties one options
    cp /disk/trace.parquet /scratch/
    while read -r name properties; do
        options=()
        for one in $properties; do options+=(-o "$one"); done
        # shellcheck disable=SC2086 # words
        if /scratch/poolwright-program replay /scratch/trace.parquet --data /scratch/database $REPLAY_OPTIONS --costs /disk/costs.json \
            --scratch /scratch "${options[@]}" --json >"/disk/$name.predicted" 2>/tmp/said; then
            pass "$name: predicted"
        else
            fail "$name: $(tail -n 3 /tmp/said | tr '\n' ' ')"
        fi
    done </disk/settings
}

prepare
step=$1
shift
"step_$step" "$@"
