#!/usr/bin/env bash
# Compares the mount with zfs-fuse 0.7.0, with a FUSE file system that does nothing, and with the engine without FUSE: fio jobs of 16K,
# sequential jobs of 1M, and SQLite. Rounds are interleaved: each round runs each job on each server.
#
# usage: scripts/bench/70-mount.sh
#
# Environment (default in parentheses):
#   MOUNT_ROUNDS     rounds (5)
#   MOUNT_SECONDS    length of each timed job (5)
#   MOUNT_MIB        MiB of data (512)
#   MOUNT_ARGUMENTS  arguments for mount-serve (crates/devtools), which serves the mount; `device` disables io_uring
#
# Settings: recordsize 16K, lz4 (zfs-fuse: lzjb), ARC limit 1G for both. The pools are in BENCH_SCRATCH, by default in /dev/shm, so that
# the figures are those of the programs and not of a disk. First each pool is filled and emptied once, because allocation of a file's first
# bytes by the host is not to be measured. The package of zfs-fuse is unpacked into target/zfs-fuse and never installed; zfs-fuse keeps a
# socket in /var/run/zfs while it runs.
#
# Exit status: 0 done, or skipped because FUSE mounts are not possible; 1 failed.
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
    # zfs-fuse does not exit while it considers its pool busy. The pool is scratch data.
    kill -KILL "$OLD_PID" 2>/dev/null || true
    wait "$OLD_PID" 2>/dev/null || true
    # mountpoint(1) does not recognise this mount, because its server has exited.
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
    # Not through old_program: $! must be the process id of zfs-fuse, not of a shell.
    LD_LIBRARY_PATH=$OLD/lib/x86_64-linux-gnu "$OLD/sbin/zfs-fuse" --no-daemon -p "$SCRATCH/old.pid" -m "$ARC_MIB" >"$SCRATCH/old.log" 2>&1 &
    OLD_PID=$!
    sleep 2
    truncate -s "${VDEV_MIB}M" "$SCRATCH/old.vdev"
    mkdir "$SCRATCH/old"
    old_program zpool create -m "$SCRATCH/old" old "$SCRATCH/old.vdev"
    for setting in compression=lzjb recordsize=16K atime=off; do old_program zfs set "$setting" old; done
}

# age SERVER: fills the pool to three quarters and empties it.
age() {
    run "age" "$1" write --rw=write --bs=1M --size="$((VDEV_MIB * 3 / 4))M" --buffer_compress_percentage=0 --end_fsync=1
    rm -f "$SCRATCH/$1/f"
}

start_ours() {
    mkdir "$SCRATCH/ours"
    # shellcheck disable=SC2086 # a list of arguments
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

# Generating new data for each write costs fio half a millisecond per MiB. The jobs of the engine repeat their data, so fio does the same
# where they are the reference. Where the reference is another mount, fio generates new data.
fresh=(--refill_buffers)

# result JOB SERVER VALUE
result() { printf '{"job":"%s","server":"%s","value":%s}\n' "$1" "$2" "$3" >>"$RESULTS"; }

# run JOB SERVER FIELD FIO-ARGUMENT...: FIELD is read or write; records operations per second.
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

# cold SERVER: exports and imports the pool. The unmount drops the page cache.
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
        # --invalidate=0: otherwise fio drops the cached pages before each job.
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

# sqlite FILE: rows per second, one row in each transaction, with WAL and synchronous=FULL.
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
    echo "BENCH-SKIP mount: cannot mount a FUSE file system here (requires /dev/fuse and root)"
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
    say "BENCH-SKIP mount: cannot download the zfs-fuse package; skipping the comparison with it"
fi
for number in $(seq "$ROUNDS"); do
    say "Round $number of $ROUNDS"
    round "${servers[@]}"
done
# Write and read more than the ARC can hold, then read the server's resident memory.
say "Memory with a full ARC"
MIB=$((ARC_MIB * 2)) ALL_TIME=all run "fill" ours write --rw=write --bs=1M --end_fsync=1
MIB=$((ARC_MIB * 2)) run "fill" ours read --rw=read --bs=1M --direct=1
rss_kib=$(awk '/^VmRSS:/ { print $2 }' "/proc/$OURS_PID/status")
python3 "$POOLWRIGHT_ROOT/scripts/bench/mount_figures.py" "$RESULTS" "$rss_kib" "$ARC_MIB"
