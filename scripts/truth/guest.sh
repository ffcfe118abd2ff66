#!/usr/bin/env bash
# Compares predictions of `replay` with a database on a kernel's OpenZFS, in a virtual machine whose clock counts instructions, so that both
# sides repeat within a few per cent on any machine.
#
# usage: scripts/truth.sh [--workload mariadb] [--size 1] [--rounds 2] [--seconds 15] [--warm 10] [--record 20] [--flush-method METHOD]
#                         [--factor 3.5] [--latency 80] [--arc 128] [--dirty 256] [--replay-options '…'] [--out DIR] [--settings FILE]
#                         [--volume MIB] [--memory MIB] [--only measure|record|predict|compare]
#        scripts/truth.sh --publish [--settings FILE] DIR…
#
#   --workload        a file scripts/vm/truth_NAME.sh: mariadb, mariadb_fsync, sqlite, sqlite_rollback, postgresql, postgresql_scan,
#                     openldap, etcd, wiredtiger, leveldb, files
#   --size            size of the database, relative to the workload's default. With another size, the database in DIR is filled again
#   --rounds, --seconds, --warm  runs of each setting, the length of the measured window, and of the load before it
#   --record          seconds that are recorded for the predictions
#   --flush-method    MariaDB's innodb_flush_method (its default is O_DIRECT)
#   --latency         microseconds that the disk takes for a request, on a real machine
#   --factor          how much slower a core of the guest is than a real one. The disk is slower by the same factor
#   --arc, --dirty    MiB of the ARC and of dirty data, in the kernel and in the predictions
#   --replay-options  further options of `poolwright replay`
#   --settings        a file like scripts/truth/guest-settings (with --volume: scripts/truth/volume-settings)
#   --volume          the database is on ext4 on a volume of this size, which is recorded instead of the files
#   --memory          with --volume: MiB of memory of the database and its clients, with the page cache of its files (320)
#   --only            one of the steps; they use the results of the others in DIR
#   --publish         writes the figures in each DIR to the track record that plans show (crates/tune/track-record.json)
#
# The database runs in the guest, with four clients, and is recorded there, with the first setting. On a volume, the page cache is cold at first. The predictions are made in the guest too, because
# a replay measures compression where it runs. Times are those of the guest. DIR (target/vm/truth/WORKLOAD) has the filled database, the
# recording (recorded/), each run (measured/), the predictions (predicted/), and the tables (guest.md).
#
# Exit status: 0 done, 1 failed, 2 wrong usage.
#
# A workload's file defines functions. `workload_fill` and `workload_stage` run on this machine, the others in the guest:
#
#   workload_fill DIR                fills DIR/data with the files of the database's dataset
#   workload_stage DIR STAGE         adds programs and configuration to STAGE, the guest's disk (/disk)
#   workload_start DATA SCRATCH      starts the server on the files in DATA
#   workload_load DATA SCRATCH SECONDS   runs CLIENTS clients, then writes the end and the duration of each transaction to standard output:
#                                    64-bit numbers, nanoseconds of the monotonic clock. It runs in a subshell
#   workload_stop DATA SCRATCH
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=scripts/vm/disk.sh
. "$POOLWRIGHT_ROOT/scripts/vm/disk.sh"

VM=$POOLWRIGHT_ROOT/target/vm
PROGRAM=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright
SETTINGS='' VOLUME=0 MEMORY=320
OUT='' WORKLOAD=mariadb SIZE=1
ROUNDS=2 LENGTH=15 WARM=10 RECORD=20 FLUSH='' FACTOR=3.5 LATENCY=80 ARC=128 DIRTY=256 REPLAY='' ONLY='' CLIENTS=4
GUEST_DATA=/srv/db GUEST_SCRATCH=/srv/server
# Time limit of a guest in seconds of this machine.
LIMIT=7200

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help) usage_from "$0"; exit 0 ;;
        esac
        [ $# -ge 2 ] || die 2 "'$1' needs a value; see --help"
        case $1 in
            --workload) WORKLOAD=$2 ;;
            --size) SIZE=$2 ;;
            --rounds) ROUNDS=$2 ;;
            --seconds) LENGTH=$2 ;;
            --warm) WARM=$2 ;;
            --record) RECORD=$2 ;;
            --flush-method) FLUSH=$2 ;;
            --factor) FACTOR=$2 ;;
            --latency) LATENCY=$2 ;;
            --arc) ARC=$2 ;;
            --dirty) DIRTY=$2 ;;
            --replay-options) REPLAY=$2 ;;
            --out) OUT=$(realpath -m -- "$2") ;;
            --settings) SETTINGS=$(realpath -- "$2") ;;
            --volume) VOLUME=$2 ;;
            --memory) MEMORY=$2 ;;
            --only) ONLY=$2 ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift 2
    done
}

# database: fills $OUT/database once for each size. A database without the file `size` has size 1.
database() {
    [ ! -e "$OUT/database/filled" ] || [ "$(cat "$OUT/database/size" 2>/dev/null || echo 1)" != "$SIZE" ] || return 0
    rm -rf "$OUT/database"
    mkdir -p "$OUT/database"
    workload_fill "$OUT/database" || die 1 "cannot fill the database"
    echo "$SIZE" >"$OUT/database/size"
    touch "$OUT/database/filled"
}

# add_programs DIR PROGRAM...: copies programs and their libraries into DIR/bin and DIR/lib.
add_programs() {
    local into=$1 program
    shift
    mkdir -p "$into/bin"
    for program in "$@"; do
        cp -L "$(command -v "$program")" "$into/bin/"
        add_libraries "$into" "$(command -v "$program")"
    done
}

# add_libraries DIR FILE...: copies the libraries of programs and libraries into DIR/lib.
add_libraries() {
    local into=$1
    shift
    mkdir -p "$into/lib"
    { ldd "$@" 2>/dev/null || true; } | sed -n 's|^[^/]*=> \(/[^ ]*\).*|\1|p' | sort -u | xargs -rI{} cp -Lfu {} "$into/lib/"
}

# module NAME DIR: one of the guest kernel's modules.
module() {
    local packed
    packed=$(find "$VM/kernel/lib/modules" -name "$1.ko*" | head -n 1)
    case $packed in
        *.xz) xz -dc "$packed" >"$2/$1.ko" ;;
        *.zst) zstd -dcq "$packed" >"$2/$1.ko" ;;
        *) cp "$packed" "$2/$1.ko" ;;
    esac
}

# device_ns: nanoseconds that the guest's disk takes for a request.
device_ns() { awk -v f="$FACTOR" -v us="$LATENCY" 'BEGIN { printf "%d", f * us * 1000 }'; }

# replay_options: describe the guest to the predictions.
replay_options() {
    local device
    device=$(device_ns)ns
    echo "--application --arc $((ARC << 20)) --tunable zfs_dirty_data_max=$((DIRTY << 20)) --sample-bytes 4G" \
        "--device read=$device,write=$device,flush=0,read_bw=0,write_bw=0,iops=0,depth=64 $REPLAY"
}

# make_disk IMAGE: the guest's disk, with programs, database, workload and options.
make_disk() {
    local stage=$1.stage
    rm -rf "$stage"
    mkdir -p "$stage"/{modules,poolwright/scripts/vm,poolwright/workloads}
    workload_stage "$OUT/database" "$stage"
    add_libraries "$stage" "$PROGRAM"
    strip -o "$stage/poolwright-program" "$PROGRAM"
    cp "$POOLWRIGHT_ROOT/scripts/lib.sh" "$stage/poolwright/scripts/"
    cp "$POOLWRIGHT_ROOT"/scripts/vm/truth_*.sh "$stage/poolwright/scripts/vm/"
    module configfs "$stage/modules"
    module null_blk "$stage/modules"
    [ "$VOLUME" = 0 ] || add_programs "$stage" mke2fs
    cp -a "$OUT/database/data" "$stage/database"
    grep -v '^#' "$SETTINGS" >"$stage/settings"
    [ ! -e "$OUT/recorded/trace.parquet" ] || cp "$OUT/recorded/trace.parquet" "$stage/"
    cat >"$stage/options" <<EOF
WORKLOAD=$WORKLOAD SIZE=$SIZE GUEST_DATA=$GUEST_DATA GUEST_SCRATCH=$GUEST_SCRATCH CLIENTS=$CLIENTS WARM=$WARM
ARC_BYTES=$((ARC << 20)) DIRTY_BYTES=$((DIRTY << 20)) DEVICE_NS=$(device_ns) DEVICE_GB=2 DEPTH=64
VOLUME_MIB=$VOLUME MEMORY_MIB=$MEMORY
REPLAY_OPTIONS='$(replay_options)'
EOF
    disk_make "$1" 3G "$stage"/*
    rm -rf "$stage"
}

# guest NAME STEP ARGUMENT...: runs a step in the guest; its results are in $OUT/NAME.
guest() {
    local name=$1 disk=$OUT/$1.disk status=0
    shift
    make_disk "$disk"
    "$POOLWRIGHT_ROOT/scripts/vm/run.sh" --virtual-time --seconds $LIMIT --memory 6144 --disk "$disk" "$POOLWRIGHT_ROOT/scripts/vm/truth.sh" \
        "$@" >"$OUT/$name.console" || status=$?
    rm -rf "${OUT:?}/$name"
    mkdir -p "$OUT/$name"
    e2fsck -p "$disk" >/dev/null 2>&1 || true
    # shellcheck disable=SC2046 # one name per word
    disk_get "$disk" "$OUT/$name" $(debugfs -R 'ls -p /' "$disk" 2>/dev/null | cut -d / -f 6 | grep -E '\.(json|parquet|said|space|log|load|[0-3])$' || true)
    rm -f "$disk"
    grep -E '^(pass|fail)' "$OUT/$name.console" || true
    [ $status -eq 0 ] || die 1 "the guest ended with status $status; see $OUT/$name.console"
}

main() {
    parse_arguments "$@"
    [ -r "$POOLWRIGHT_ROOT/scripts/vm/truth_$WORKLOAD.sh" ] || die 2 "unknown workload '$WORKLOAD'; see --help"
    if [ "$VOLUME" = 0 ]; then
        OUT=${OUT:-$VM/truth/$WORKLOAD} SETTINGS=${SETTINGS:-$POOLWRIGHT_ROOT/scripts/truth/guest-settings}
    else
        OUT=${OUT:-$VM/truth/$WORKLOAD-volume} SETTINGS=${SETTINGS:-$POOLWRIGHT_ROOT/scripts/truth/volume-settings}
    fi
    # shellcheck source=scripts/vm/truth_mariadb.sh
    . "$POOLWRIGHT_ROOT/scripts/vm/truth_$WORKLOAD.sh"
    case $ONLY in
        '' | measure | record | predict | compare) ;;
        *) die 2 "--only takes measure, record, predict or compare" ;;
    esac
    database
    case $ONLY in '' | measure) guest measured measure "$LENGTH" "$ROUNDS" ;; esac
    case $ONLY in
        '' | record)
            rm -rf "$OUT/recorded"
            guest recorded record "$RECORD"
            echo "$RECORD" >"$OUT/recorded/seconds"
            ;;
    esac
    case $ONLY in '' | predict) guest predicted predict ;; esac
    case $ONLY in '' | compare) python3 "$POOLWRIGHT_ROOT/scripts/truth/guest.py" "$OUT" "$SETTINGS" | tee "$OUT/guest.md" ;; esac
}

main "$@"
