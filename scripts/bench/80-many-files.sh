#!/usr/bin/env bash
# Many files in one directory, through the mount: what creating, listing, looking at and deleting one of them costs, with
# MANY_FILES of them beside a tenth of that.
#
# usage: scripts/bench/80-many-files.sh
#
# MANY_FILES (1000000) in a pool in BENCH_SCRATCH, or in /dev/shm where that is not given.
# Exit status: 0 done, or skipped because nothing can be mounted; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

SERVE=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/examples/serve
MANY=${MANY_FILES:-1000000}
[ "${BENCH_SMOKE:-0}" != 1 ] || MANY=20000
SCRATCH=$(mktemp -d "${BENCH_SCRATCH:-/dev/shm}/poolwright-many.XXXXXX")
PID=

clean_up() {
    local status=$?
    trap - EXIT ERR
    set +e
    mountpoint -q "$SCRATCH/mnt" && umount "$SCRATCH/mnt"
    [ -z "$PID" ] || wait "$PID"
    rm -rf -- "$SCRATCH"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# one COUNT: a fresh pool, and a JSON line of microseconds for each step and file.
one() {
    mkdir "$SCRATCH/mnt"
    "$SERVE" "$SCRATCH/vdev" "$SCRATCH/mnt" through 4 arc=1024 >"$SCRATCH/log" 2>&1 &
    PID=$!
    for _ in $(seq 100); do
        mountpoint -q "$SCRATCH/mnt" && break
        sleep 0.1
    done
    mountpoint -q "$SCRATCH/mnt" || return 3
    python3 - "$SCRATCH/mnt/d" "$1" <<'PYTHON'
import json, os, random, sys, time
path, count = sys.argv[1], int(sys.argv[2])
os.mkdir(path)
here = os.open(path, os.O_RDONLY)
names = ["file-%08d" % n for n in range(count)]
shuffled = names[:]
random.Random(1).shuffle(shuffled)
took = {}

def timed(step, work):
    start = time.monotonic()
    work()
    took[step] = (time.monotonic() - start) * 1e6 / count

def create():
    for name in shuffled:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=here))

def listing():
    assert sum(1 for _ in os.scandir(path)) == count

def stat():
    for name in names:
        os.stat(name, dir_fd=here)

def delete():
    for name in shuffled:
        os.unlink(name, dir_fd=here)

for step, work in (("create", create), ("list", listing), ("stat", stat), ("delete", delete)):
    timed(step, work)
assert not os.listdir(path)
print(json.dumps(took))
PYTHON
    umount "$SCRATCH/mnt"
    wait "$PID"
    PID=
    rmdir "$SCRATCH/mnt"
    rm -f "$SCRATCH/vdev"
}

few=$(one $((MANY / 10))) || {
    echo "BENCH-SKIP many-files: nothing can be mounted here"
    exit 0
}
many=$(one "$MANY")
python3 -c '
import json, sys
few, many, count = json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
for step in many:
    ratio = many[step] / few[step]
    print("BENCH " + json.dumps({
        "name": f"many files/{step}, {count} in a directory against a tenth", "value": round(many[step], 2), "unit": "us each",
        "reference": round(few[step], 2), "ratio": round(ratio, 3), "bar": "<= 2", "pass": ratio <= 2,
    }))' "$few" "$many" "$MANY"
