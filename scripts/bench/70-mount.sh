#!/usr/bin/env bash
# The mount beside zfs-fuse 0.7.0, beside a FUSE file system that does nothing, and beside the engine without FUSE:
# fio's jobs of 16K, sequential ones of 1M, and SQLite. Rounds are interleaved: every round runs every job on each.
#
# usage: scripts/bench/70-mount.sh
#
# MOUNT_ROUNDS (5), MOUNT_SECONDS (5) for each timed job, MOUNT_MIB (512) of data. recordsize 16K with lz4 (zfs-fuse:
# lzjb), ARC limit 1G for both, pools in BENCH_SCRATCH, or in /dev/shm where that is not given: so figures are those
# of the programs and not of a disk. The pools are filled once and emptied first, as if they had been in use: the host's
# finding room for a file's first bytes is not what is measured. zfs-fuse's package is unpacked into target/zfs-fuse and
# never installed; it keeps a socket in /var/run/zfs while it runs. MOUNT_ARGUMENTS (`device`: no io_uring) are handed to
# mount-serve (crates/devtools), which serves the mount.
# Exit status: 0 done, or skipped because nothing can be mounted; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

TOOLS=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release
ROUNDS=${MOUNT_ROUNDS:-5} SECONDS_EACH=${MOUNT_SECONDS:-5} MIB=${MOUNT_MIB:-512} THREADS=4
ARC_MIB=1024 VDEV_MIB=3072
if [ "${BENCH_SMOKE:-0}" = 1 ]; then
    ROUNDS=1 SECONDS_EACH=1 MIB=64 VDEV_MIB=2048
fi
SCRATCH=$(mktemp -d "${BENCH_SCRATCH:-/dev/shm}/poolwright-mount.XXXXXX")
OLD=$POOLWRIGHT_ROOT/target/zfs-fuse
RESULTS=$SCRATCH/results.jsonl

stop_all() {
    local where
    for where in ours idle old; do
        mountpoint -q "$SCRATCH/$where" && umount "$SCRATCH/$where"
    done
    [ -z "${OURS_PID:-}" ] || wait "$OURS_PID" || true
    [ -n "${OLD_PID:-}" ] || return 0
    old_zfs export -f old 2>/dev/null || true
    # it does not end by itself while it believes that its pool is busy, and nothing in it is worth keeping
    kill -KILL "$OLD_PID" 2>/dev/null || true
    wait "$OLD_PID" 2>/dev/null || true
    # Its server is dead by now, so that mountpoint(1) does not recognise it.
    if grep -q ' /zfs-kstat ' /proc/mounts; then umount /zfs-kstat && rmdir /zfs-kstat; fi
}
clean_up() {
    local status=$?
    trap - EXIT ERR
    set +e
    stop_all
    rm -rf -- "$SCRATCH"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

old_program() { LD_LIBRARY_PATH=$OLD/lib/x86_64-linux-gnu "$OLD/sbin/$1" "${@:2}"; }
old_zfs() { [ ! -x "$OLD/sbin/zpool" ] || old_program zpool "$@" >/dev/null; }

fetch_old() {
    [ ! -x "$OLD/sbin/zfs-fuse" ] || return 0
    mkdir -p "$OLD/packages"
    (cd "$OLD/packages" && apt-get download -qq zfs-fuse libfuse2 >/dev/null 2>&1) || return 1
    for package in "$OLD"/packages/*.deb; do dpkg -x "$package" "$OLD"; done
    [ -x "$OLD/sbin/zfs-fuse" ]
}

start_old() {
    fetch_old || return 1
    # not through old_program: its process would be a shell's child, and this is the number that is killed
    LD_LIBRARY_PATH=$OLD/lib/x86_64-linux-gnu "$OLD/sbin/zfs-fuse" --no-daemon -p "$SCRATCH/old.pid" -m "$ARC_MIB" >"$SCRATCH/old.log" 2>&1 &
    OLD_PID=$!
    sleep 2
    truncate -s "${VDEV_MIB}M" "$SCRATCH/old.vdev"
    mkdir "$SCRATCH/old"
    old_program zpool create -m "$SCRATCH/old" old "$SCRATCH/old.vdev"
    for setting in compression=lzjb recordsize=16K atime=off; do old_program zfs set "$setting" old; done
}

# age SERVER: its pool is filled to three quarters and emptied.
age() {
    run "age" "$1" write --rw=write --bs=1M --size="$((VDEV_MIB * 3 / 4))M" --buffer_compress_percentage=0 --end_fsync=1
    rm -f "$SCRATCH/$1/f"
}

start_ours() {
    mkdir "$SCRATCH/ours"
    # shellcheck disable=SC2086 # words for the program
    "$TOOLS/mount-serve" "$SCRATCH/ours.vdev" "$SCRATCH/ours" pages "$THREADS" "arc=$ARC_MIB" "vdev=$VDEV_MIB" ${MOUNT_ARGUMENTS:-} >"$SCRATCH/ours.log" 2>&1 &
    OURS_PID=$!
    wait_mounted ours
}

start_idle() {
    mkdir "$SCRATCH/idle"
    "$TOOLS/mount-idle" "$SCRATCH/idle" "$MIB" "$THREADS" >"$SCRATCH/idle.log" 2>&1 &
    wait_mounted idle
}

wait_mounted() {
    for _ in $(seq 100); do
        mountpoint -q "$SCRATCH/$1" && return 0
        sleep 0.1
    done
    cat "$SCRATCH/$1.log" >&2
    return 1
}

# Data for every write of its own costs fio half a millisecond a MiB. The engine's own jobs write what they made before, so
# fio does too where they are the reference; where the reference is another mount, data is fresh.
fresh=(--refill_buffers)

# result JOB SERVER VALUE
result() { printf '{"job":"%s","server":"%s","value":%s}\n' "$1" "$2" "$3" >>"$RESULTS"; }

# run JOB SERVER FIELD fio-arguments: FIELD is read or write; records operations a second.
run() {
    local job=$1 server=$2 field=$3
    shift 3
    fio --name=j --filename="$SCRATCH/$server/f" --size="${MIB}M" --bs=16k --ioengine=psync --group_reporting --thread \
        --buffer_compress_percentage=50 --output-format=json "$@" >"$SCRATCH/fio.json" 2>"$SCRATCH/fio.err" || {
        cat "$SCRATCH/fio.err" >&2
        return 1
    }
    result "$job" "$server" "$(python3 -c '
import json, sys
text = open(sys.argv[1]).read()
job = json.loads(text[text.index("{"):])["jobs"][0]
side = job[sys.argv[2]]
spent = max(side["runtime"], job["job_runtime"] if sys.argv[3] == "all" else 0)
print(round(side["total_ios"] * 1000 / spent, 1))' "$SCRATCH/fio.json" "$field" "${ALL_TIME:-}")"
}

timed=(--time_based --runtime="$SECONDS_EACH")

# The cold read needs the pool exported and imported; the page cache is dropped with the mount.
cold() {
    case $1 in
        ours)
            umount "$SCRATCH/ours"
            wait "$OURS_PID"
            rmdir "$SCRATCH/ours"
            start_ours
            ;;
        old)
            old_program zpool export old
            old_program zpool import -d "$SCRATCH" old
            ;;
    esac
}

round() {
    local server
    for server in "$@"; do
        [ "$server" = idle ] || rm -f "$SCRATCH/$server/f"
        ALL_TIME=all run "write 1M" "$server" write --rw=write --bs=1M --end_fsync=1
        if [ "$server" != idle ]; then
            cold "$server"
            run "cold read 1M" "$server" read --rw=read --bs=1M
        fi
        # fio would drop the pages before each job
        run "warm" "$server" read --rw=read --bs=1M --invalidate=0
        run "read, page cache, 1 job" "$server" read --rw=randread --invalidate=0 "${timed[@]}"
        run "read, page cache, 4 jobs" "$server" read --rw=randread --invalidate=0 --numjobs=4 "${timed[@]}"
        run "read, ARC, 1 job" "$server" read --rw=randread --direct=1 "${timed[@]}"
        run "read, ARC, 4 jobs" "$server" read --rw=randread --numjobs=4 --direct=1 "${timed[@]}"
        ALL_TIME=all run "write, end_fsync" "$server" write --rw=randwrite --end_fsync=1 --io_size="$((MIB / 2))M" "${fresh[@]}"
        run "write, fdatasync each" "$server" write --rw=randwrite --fdatasync=1 "${timed[@]}"
        [ "$server" = idle ] || result "SQLite" "$server" "$(sqlite "$SCRATCH/$server/s.db")"
    done
    for job in sync-write write cold-read; do
        result "$job" engine "$("$TOOLS/engine-jobs" "$SCRATCH/engine.vdev" "$job" "$SECONDS_EACH" "$MIB" | sed 's/.*"ops_s"://; s/}//')"
    done
}

# Rows a second, one in each transaction, WAL and synchronous=FULL.
sqlite() {
    python3 - "$1" "$SECONDS_EACH" <<'PYTHON'
import os, sqlite3, sys, time
path, limit = sys.argv[1], float(sys.argv[2])
for old in (path, path + "-wal", path + "-shm"):
    if os.path.exists(old):
        os.remove(old)
db = sqlite3.connect(path, isolation_level=None)
db.execute("pragma journal_mode=wal")
db.execute("pragma synchronous=full")
db.execute("create table t(i integer primary key, v text)")
n, start = 0, time.monotonic()
while time.monotonic() - start < limit:
    db.execute("insert into t(v) values (?)", ("a row of some words %d " % n * 4,))
    n += 1
print(round(n / (time.monotonic() - start), 1))
PYTHON
}

if ! start_ours; then
    echo "BENCH-SKIP mount: nothing can be mounted here (is /dev/fuse there, and are you root?)"
    exit 0
fi
say "Served through $(sed -n 's/.* through \([^,]*\),.*/\1/p' "$SCRATCH/ours.log" | head -n 1)"
age ours
start_idle
servers=(ours idle)
if start_old; then
    servers+=(old)
    age old
else
    say "BENCH-SKIP mount: zfs-fuse's package cannot be had here, so nothing is compared with it"
fi
for number in $(seq "$ROUNDS"); do
    say "Round $number of $ROUNDS"
    round "${servers[@]}"
done
# More than the ARC can hold, written and read, and then what the server's memory has come to.
say "Memory with a full ARC"
MIB=$((ARC_MIB * 2)) ALL_TIME=all run "fill" ours write --rw=write --bs=1M --end_fsync=1
MIB=$((ARC_MIB * 2)) run "fill" ours read --rw=read --bs=1M --direct=1
rss_kib=$(awk '/^VmRSS:/ { print $2 }' "/proc/$OURS_PID/status")
python3 "$POOLWRIGHT_ROOT/scripts/bench/mount_figures.py" "$RESULTS" "$rss_kib" "$ARC_MIB"
