#!/usr/bin/env bash
# `truth.sh --guest`: compares predictions with a kernel's OpenZFS, in a virtual machine whose clock counts instructions, so that both sides
# repeat within a few per cent on any machine.
#
# usage: scripts/truth.sh --guest [--rounds 2] [--seconds 15] [--warm 10] [--record 20] [--flush-method METHOD] [--factor 3.5]
#                         [--latency 80] [--arc 128] [--dirty 256] [--replay-options '…'] [--out DIR] [--settings FILE] [--costs FILE]
#                         [--only measure|record|predict|compare]
#
#   --rounds, --seconds, --warm  runs of each setting, the length of the measured window, and of the load before it
#   --record          seconds that are recorded for the predictions
#   --flush-method    MariaDB's innodb_flush_method (its default is O_DIRECT)
#   --latency         microseconds that the disk takes for a request, on a real machine
#   --factor          how much slower a core of the guest is than a real one. The disk is slower by the same factor
#   --arc, --dirty    MiB of the ARC and of dirty data, in the kernel and in the predictions
#   --replay-options  further options of `poolwright replay`
#   --settings, --costs  files like scripts/truth/guest-settings and guest-costs.json: what work costs on the guest's processor
#   --only            one of the steps; they use the results of the others in DIR
#
# Times are those of the guest. The workload is MariaDB with workloads/mariadb, four clients. Today's setting is the first. The results are
# in DIR (target/vm/truth): measured/ and predicted/ have each run, guest.md the table.
#
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=scripts/vm/disk.sh
. "$POOLWRIGHT_ROOT/scripts/vm/disk.sh"

VM=$POOLWRIGHT_ROOT/target/vm
PROGRAM=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright
SETTINGS=$POOLWRIGHT_ROOT/scripts/truth/guest-settings
COSTS=$POOLWRIGHT_ROOT/scripts/truth/guest-costs.json
MARIADB=$POOLWRIGHT_ROOT/workloads/mariadb
OUT=$VM/truth
ROUNDS=2 LENGTH=15 WARM=10 RECORD=20 FLUSH='' FACTOR=3.5 LATENCY=80 ARC=128 DIRTY=256 REPLAY='' ONLY=''
# Time limit of a guest in seconds of this machine.
LIMIT=7200

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help) usage_from "$0"; exit 0 ;;
        esac
        [ $# -ge 2 ] || die 2 "'$1' needs a value; see --help"
        case $1 in
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
            --costs) COSTS=$(realpath -- "$2") ;;
            --only) ONLY=$2 ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift 2
    done
}

# database: the filled database in $OUT/mariadb, made once.
database() {
    [ ! -e "$OUT/mariadb/filled" ] || return 0
    rm -rf "$OUT/mariadb"
    mkdir -p "$OUT"
    "$MARIADB/server.sh" start "$OUT/mariadb" --buffer-pool 256M
    "$MARIADB/fill.sh" "$OUT/mariadb" || { "$MARIADB/server.sh" stop "$OUT/mariadb"; die 1 "cannot fill the database"; }
    "$MARIADB/server.sh" stop "$OUT/mariadb"
    touch "$OUT/mariadb/filled"
}

# add_programs DIR PROGRAM...: copies programs and their libraries into DIR/bin and DIR/lib.
add_programs() {
    local into=$1 program
    shift
    mkdir -p "$into/bin" "$into/lib"
    for program in "$@"; do
        cp -L "$(command -v "$program")" "$into/bin/"
        ldd "$(command -v "$program")" 2>/dev/null | sed -n 's|^[^/]*=> \(/[^ ]*\).*|\1|p' | xargs -rI{} cp -Lfu {} "$into/lib/"
    done
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

# replay_options NANOSECONDS: for the predictions of a machine like the guest.
replay_options() {
    echo "--application --arc $((ARC << 20)) --tunable zfs_dirty_data_max=$((DIRTY << 20)) --sample-bytes 4G" \
        "--device read=$1ns,write=$1ns,flush=0,read_bw=0,write_bw=0,iops=0,depth=64"
}

# make_disk IMAGE: the guest's disk, with programs, database, workload and options.
make_disk() {
    local stage=$1.stage ns
    rm -rf "$stage"
    mkdir -p "$stage"/{modules,poolwright/scripts,poolwright/workloads,usr/share}
    add_programs "$stage" mariadbd mariadb sysbench realpath "$PROGRAM"
    rm "$stage/bin/poolwright"
    strip -o "$stage/poolwright-program" "$PROGRAM"
    cp "$POOLWRIGHT_ROOT/scripts/lib.sh" "$stage/poolwright/scripts/"
    cp -r "$MARIADB" "$stage/poolwright/workloads/"
    cp -rL /usr/share/mysql "$stage/usr/share/"
    module configfs "$stage/modules"
    module null_blk "$stage/modules"
    cp -r "$OUT/mariadb/data" "$stage/database"
    sed "s|^datadir = .*|datadir = /srv/db|; s|$OUT/mariadb|/srv/server|; s|^innodb-buffer-pool-size.*|innodb-buffer-pool-size = 64M|" \
        "$OUT/mariadb/my.cnf" >"$stage/my.cnf"
    [ -z "$FLUSH" ] || echo "innodb-flush-method = $FLUSH" >>"$stage/my.cnf"
    grep -v '^#' "$SETTINGS" >"$stage/settings"
    cp "$COSTS" "$stage/costs.json"
    [ ! -e "$OUT/recorded/trace.parquet" ] || cp "$OUT/recorded/trace.parquet" "$stage/"
    ns=$(awk -v f="$FACTOR" -v us="$LATENCY" 'BEGIN { printf "%d", f * us * 1000 }')
    cat >"$stage/options" <<EOF
ARC_BYTES=$((ARC << 20)) DIRTY_BYTES=$((DIRTY << 20)) DEVICE_NS=$ns DEVICE_GB=2 DEPTH=64 THREADS=4 WARM=$WARM
REPLAY_OPTIONS='$(replay_options "$ns") $REPLAY'
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
    disk_get "$disk" "$OUT/$name" $(debugfs -R 'ls -p /' "$disk" 2>/dev/null | cut -d / -f 6 | grep -E '\.(predicted|parquet|space|log|load|[0-3])$' || true)
    rm -f "$disk"
    grep -E '^(pass|fail)' "$OUT/$name.console" || true
    [ $status -eq 0 ] || die 1 "the guest ended with status $status; see $OUT/$name.console"
}

main() {
    local other=
    parse_arguments "$@"
    case $ONLY in
        '' | measure | record | predict) database ;;&
        '') guest measured measure "$LENGTH" "$ROUNDS" & other=$! ;;
        measure) guest measured measure "$LENGTH" "$ROUNDS" ;;
        record | predict | compare) ;;
        *) die 2 "--only takes measure, record, predict or compare" ;;
    esac
    case $ONLY in '' | record) guest recorded record "$RECORD" ;; esac
    case $ONLY in '' | predict) guest predicted predict ;; esac
    [ -z "$other" ] || wait $other
    case $ONLY in '' | compare) python3 "$POOLWRIGHT_ROOT/scripts/truth/guest.py" "$OUT" "$SETTINGS" | tee "$OUT/guest.md" ;; esac
}

main "$@"
