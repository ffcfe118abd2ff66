# shellcheck shell=bash
# The guest's part of scripts/vm/captures.sh: brings pools into each state and captures it into /disk/captures.
#
# arguments: STATE... (none: all)
#
# Writes fail because the file system of the vdev is full. Reads fail by zinject, if /disk has it.

OUT=/disk/captures
COMMAND_SECONDS=20
PARAMETERS=/sys/module/zfs/parameters

say() { printf '%s %s\n' "$(cut -d' ' -f1 /proc/uptime)" "$*"; }

parameter() { echo "$2" >"$PARAMETERS/$1"; }

# limited NAME COMMAND...: captures the output of a command. A command that does not end in time is left alone, because it
# cannot be killed while it waits in the kernel.
limited() {
    local name=$1 pid tenths=0 status=hung
    shift
    env -i PATH=/bin:/sbin LC_ALL=C TZ=UTC "$@" >"$DIR/$name" 2>"$DIR/$name.stderr" </dev/null &
    pid=$!
    while [ -e "/proc/$pid/stat" ] && ! grep -q ') Z' "/proc/$pid/stat" 2>/dev/null && [ $tenths -lt $((COMMAND_SECONDS * 10)) ]; do
        sleep 0.1
        tenths=$((tenths + 1))
    done
    if [ $tenths -lt $((COMMAND_SECONDS * 10)) ]; then
        wait "$pid"
        status=$?
    fi
    [ -s "$DIR/$name.stderr" ] || rm -f "$DIR/$name.stderr"
    printf '%s\t%s\t%s\n' "$name" "$status" "$*" >>"$DIR/commands"
    [ "$status" = 0 ] || say "  $name: $status"
}

# The kstat tree without the lists of buffers and debug messages, which are large.
capture_kstats() {
    local file
    (cd /proc/spl/kstat/zfs && find . -type f) | grep -vE '/(dbufs|dbgmsg|import_progress|reads|multihost|brtstats|dnodestats|ddt_stats_.*|metaslab_stats|vdev_raidz_bench|fletcher_4_bench|chksum_bench|qat|dmu_tx_assign)$' |
        while read -r file; do
            mkdir -p "$DIR/kstat/$(dirname "$file")"
            cat "/proc/spl/kstat/zfs/$file" >"$DIR/kstat/$file"
        done
}

# capture STATE: exactly the commands that crates/zfs runs, and the text output that older versions have instead of JSON.
capture() {
    local pool
    DIR=$OUT/$1
    say "capture $1"
    mkdir -p "$DIR/kstat"
    capture_kstats
    limited zfs-version zfs version
    limited zpool-status.json zpool status -j --json-int
    limited zpool-status.txt zpool status -ps
    limited zpool-status-guids.txt zpool status -psg
    limited zpool-list zpool list -Hp -o "$LIST_COLUMNS"
    for pool in /proc/spl/kstat/zfs/*/; do
        [ -e "$pool" ] || continue
        pool=$(basename "$pool")
        limited "zpool-get.$pool" zpool get -Hp -o name,property,value "$VDEV_PROPERTIES" "$pool" all-vdevs
    done
    limited zpool-iostat-latency zpool iostat -wvgHp
    limited zpool-iostat-request-size zpool iostat -rvgHp
    limited zfs-list zfs list -Hp -t filesystem,volume -o "$DATASET_COLUMNS"
    limited zfs-get zfs get -Hp -t filesystem,volume -o name,property,value,source "$DATASET_PROPERTIES"
    limited zfs-list-snapshots zfs list -Hp -t snapshot -o name,creation -s name
    limited zpool-events zpool events -Hv
    zpool events -c >/dev/null
    # After each capture, so that a state in which the guest hangs loses only itself.
    tar -C "$OUT" -cf /disk/captures.tar . && sync -f /disk/captures.tar
}

# files SIZE NAME...: makes sparse files in /disk.
files() {
    local size=$1 name
    shift
    for name in "$@"; do
        rm -f "/disk/$name"
        truncate -s "$size" "/disk/$name"
    done
}

# fill FILE MEBIBYTES [dd ARGUMENT...]: writes data that does not compress.
fill() {
    local file=$1 count=$2
    shift 2
    dd if=/disk/noise of="$file" bs=1M count="$count" conv=notrunc "$@" 2>/dev/null
}

make_tank() {
    zpool list tank >/dev/null 2>&1 && return 0
    files 256M side0 side1 log0 cache0 special0 special1 dedup0 spare0
    zpool create -f -o ashift=12 -O mountpoint=/mnt/tank -O compression=lz4 -O atime=off tank mirror /disk/side0 /disk/side1 \
        special mirror /disk/special0 /disk/special1 dedup /disk/dedup0 log /disk/log0 cache /disk/cache0 spare /disk/spare0 || return 1
    zfs create -o recordsize=16K -o compression=zstd -o primarycache=metadata tank/pg
    zfs create -o recordsize=128K -o logbias=throughput -o quota=128M tank/pg/wal
    zfs create -o recordsize=1M -o special_small_blocks=32K -o sync=disabled "tank/with space"
    zfs create -s -V 64M -o volblocksize=16K tank/volume
    fill /mnt/tank/pg/base 40
    fill /mnt/tank/pg/wal/0001 16
    for n in 1 2 3 4 5; do
        zfs snapshot "tank/pg@hourly-$n"
        dd if=/disk/noise of=/mnt/tank/pg/base bs=16K count=20 seek=$((n * 100)) conv=notrunc,fsync 2>/dev/null
    done
    zfs snapshot -r tank@daily
    zfs clone tank/pg@hourly-3 tank/clone
    sync
    cat /mnt/tank/pg/base /mnt/tank/pg/wal/0001 >/dev/null
}

state_none() { capture none; }

state_healthy() { make_tank && capture healthy; }

# The scan is stopped in the middle by a module parameter.
state_scrubbing() {
    make_tank
    parameter zfs_scan_legacy 1
    parameter zfs_scrub_min_time_ms 20
    zpool scrub tank
    sleep 0.3
    parameter zfs_scan_suspend_progress 1
    sleep 6
    capture scrubbing
    zpool scrub -p tank
    capture scrub-paused
    parameter zfs_scan_suspend_progress 0
    zpool scrub tank
    zpool wait -t scrub tank
    capture scrubbed
    zpool scrub tank
    parameter zfs_scan_suspend_progress 1
    zpool scrub -s tank
    parameter zfs_scan_suspend_progress 0
    capture scrub-canceled
}

state_degraded() {
    make_tank
    zpool offline tank /disk/side1
    fill /mnt/tank/pg/base 30
    sync
    capture degraded
    zpool online tank /disk/side1
    zpool wait -t resilver tank
    sleep 1
    capture resilvered
}

state_faulted() {
    make_tank
    zpool offline -f tank /disk/side1
    capture faulted
    zpool clear tank
    zpool wait -t resilver tank
}

state_unavailable() {
    make_tank
    zpool export tank
    rm /disk/side1
    zpool import -d /disk tank
    capture unavailable
    files 256M side2
    parameter zfs_scan_suspend_progress 1
    zpool replace tank "$(zpool status -g tank | awk '$2 == "UNAVAIL" && !n++ { print $1 }')" /disk/side2
    sleep 6
    capture replacing
    parameter zfs_scan_suspend_progress 0
    zpool wait -t resilver tank
    zpool destroy tank
}

# A sequential resilver.
state_rebuilt() {
    files 128M seq0 seq1
    zpool create -f -O mountpoint=/mnt/seq seq /disk/seq0
    fill /mnt/seq/data 30
    zpool attach -s seq /disk/seq0 /disk/seq1
    zpool wait -t resilver seq
    sleep 1
    capture rebuilt
    zpool destroy seq
}

state_data_errors() {
    local at
    files 128M bad0
    zpool create -f -O mountpoint=/mnt/bad bad /disk/bad0
    zfs create -o recordsize=16K bad/db
    fill /mnt/bad/db/table 40
    sync
    # Not the labels and the first metadata, and not every block.
    for at in $(seq 14 2 40); do
        dd if=/dev/zero of=/disk/bad0 bs=64K count=1 seek=$((at * 16)) conv=notrunc 2>/dev/null
    done
    sync -f /disk/bad0
    echo 3 >/proc/sys/vm/drop_caches
    zpool scrub -w bad
    capture data-errors
    zpool destroy bad
}

state_label_lost() {
    files 128M short0 short1
    zpool create -f -O mountpoint=/mnt/short short mirror /disk/short0 /disk/short1
    fill /mnt/short/data 60
    sync
    truncate -s 40M /disk/short1
    zpool scrub -w short
    capture label-lost
    zpool destroy short
}

# A side of a mirror fails each third read. All I/Os of more than 1 ms count as slow.
state_read_errors() {
    [ -x /disk/zinject ] || { say "no zinject: read-errors is not captured"; return 0; }
    files 128M fails0 fails1
    zpool create -f -O mountpoint=/mnt/fails fails mirror /disk/fails0 /disk/fails1
    fill /mnt/fails/data 40
    sync
    parameter zio_slow_io_ms 1
    /disk/zinject -d /disk/fails1 -e io -T read -f 33 fails
    zpool scrub -w fails
    capture read-errors
    parameter zio_slow_io_ms 30000
    /disk/zinject -c all
    zpool destroy fails
}

state_full() {
    local n=0
    files 4G full0
    zpool create -f -O mountpoint=/mnt/full -O compression=off -O checksum=off -O recordsize=1M full /disk/full0
    while fill "/mnt/full/$n" 128 && [ $n -lt 40 ]; do n=$((n + 1)); done
    sync
    capture full
    zpool destroy full
    rm -f /disk/full0
}

# All writes fail, because the file system of the vdev is full.
state_suspended() {
    mkdir -p /mnt/small
    mount -t tmpfs -o size=24M tmpfs /mnt/small
    truncate -s 256M /mnt/small/lost0
    zpool create -f -o failmode=wait -O mountpoint=/mnt/lost lost /mnt/small/lost0
    zfs create lost/db
    fill /mnt/lost/db/table 40 &
    for _ in $(seq 60); do
        sleep 1
        [ "$(cat /proc/spl/kstat/zfs/lost/state)" != SUSPENDED ] || break
    done
    capture suspended
    mount -o remount,size=400M /mnt/small
    zpool clear lost
    sleep 5
    say "after the repair: $(cat /proc/spl/kstat/zfs/lost/state)"
    zpool destroy lost
}

# shellcheck source=/dev/null
. /disk/lists
parameter zfs_txg_history 12
parameter zfs_zevent_len_max 40
dd if=/dev/urandom of=/disk/noise bs=1M count=128 2>/dev/null
zpool events -c >/dev/null
[ -n "${1:-}" ] || set -- none healthy scrubbing degraded faulted unavailable rebuilt data_errors label_lost read_errors full suspended
for state in "$@"; do
    "state_$state" 2>&1
done
say "all states captured"
