# shellcheck shell=bash
# What the tests of the mount share: a pool of their own on a sparse file, its mount process, verdicts, and an end that
# leaves nothing behind. Sourced after scripts/lib.sh.

MOUNT_PID=
PASSED=0
FAILED=0

# mount_prepare: the scratch folder, and what must be there. POOLWRIGHT_SCRATCH says where (default /dev/shm if there is
# enough room, else /tmp): the pool's file lies in it.
mount_prepare() {
    local base=${POOLWRIGHT_SCRATCH:-/dev/shm}
    [ -e /dev/fuse ] || die 1 "/dev/fuse is not here: the kernel offers no FUSE"
    [ "$(id -u)" -eq 0 ] || die 2 "these tests run servers as other users on the mount, and need root"
    [ -n "${POOLWRIGHT_SCRATCH:-}" ] || [ "$(free_mib "$base" 2>/dev/null || echo 0)" -ge 4096 ] || base=/tmp
    SCRATCH=$(mktemp -d "$base/poolwright-mount.XXXXXX")
    chmod 755 "$SCRATCH"
    MNT=$SCRATCH/mnt
    VDEV=$SCRATCH/vdev
    # The names of pools are known to all programs of this machine; this one's is its own.
    POOL=mounttest$$
    mkdir "$MNT" "$SCRATCH/work"
    trap mount_cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mount_program
}

# The program, built if POOLWRIGHT does not name one; with MOUNT_FEATURES, in a directory of its own, so that a program with
# simulated power cuts is never taken for the one that is shipped.
mount_program() {
    local target=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target} features=()
    [ -z "${POOLWRIGHT:-}" ] || return 0
    if [ -n "${MOUNT_FEATURES:-}" ]; then
        target=$target/$MOUNT_FEATURES
        features=(--features "$MOUNT_FEATURES")
    fi
    (cd "$POOLWRIGHT_ROOT" && cargo build --release --locked --quiet -p poolwright --target-dir "$target" ${features[@]+"${features[@]}"})
    POOLWRIGHT=$target/release/poolwright
}

# mount_up MODE: mounts the pool (and makes it, if its file is not there); MODE is through, pages or writeback.
mount_up() {
    local mode=$1 waited=0
    if [ ! -e "$VDEV" ]; then
        "$POOLWRIGHT" pool create "$POOL" "$VDEV" -O recordsize=16K -O compression=lz4 >/dev/null
    fi
    : >"$SCRATCH/mounted.log"
    # Not read from a terminal, and not stopped by its Ctrl-C before the databases are.
    setsid "$POOLWRIGHT" mount "$POOL" "$MNT" -o "caching=$mode" --arc 1G </dev/null >"$SCRATCH/mounted.log" 2>>"$SCRATCH/serve.log" &
    MOUNT_PID=$!
    until grep -qs "mounted on" "$SCRATCH/mounted.log"; do
        kill -0 "$MOUNT_PID" 2>/dev/null || { tail -n 5 "$SCRATCH/serve.log" >&2; return 1; }
        [ "$waited" -lt 600 ] || { warn "not mounted after 60 s"; return 1; }
        sleep 0.1
        waited=$((waited + 1))
    done
}

mount_alive() { [ -n "$MOUNT_PID" ] && kill -0 "$MOUNT_PID" 2>/dev/null; }

# mount_down: unmounts, and waits until the pool is exported. Fails if it was in use or the process failed.
mount_down() {
    local status=0 waited=0
    until umount "$MNT" 2>"$SCRATCH/umount.log"; do
        [ "$waited" -lt 50 ] || { cat "$SCRATCH/umount.log" >&2; return 1; }
        sleep 0.1
        waited=$((waited + 1))
    done
    waited=0
    while mount_alive; do
        [ "$waited" -lt 1200 ] || { warn "the mount process has not ended 120 s after umount"; return 1; }
        sleep 0.1
        waited=$((waited + 1))
    done
    wait "$MOUNT_PID" || status=$?
    MOUNT_PID=
    [ $status -eq 0 ] || { warn "the mount process ended with status $status"; tail -n 5 "$SCRATCH/serve.log" >&2; }
    return $status
}

# mount_discard: ends whatever still runs on the mount, the mount, and the pool; nothing of it is wanted.
mount_discard() {
    local pidfile pid mounted
    for pidfile in "$SCRATCH"/work/*.pid; do
        [ -e "$pidfile" ] || continue
        pid=$(head -n 1 "$pidfile")
        [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
    done
    if [ -n "$MOUNT_PID" ]; then
        kill -KILL "$MOUNT_PID" 2>/dev/null || true
        wait "$MOUNT_PID" 2>/dev/null || true
        MOUNT_PID=
    fi
    # Its own, and those that a program of the tests has made in the scratch folder.
    awk -v below="$SCRATCH/" 'index($2, below) == 1 { print $2 }' /proc/mounts | while read -r mounted; do
        umount -l "$mounted" 2>/dev/null || true
    done
    rm -rf -- "$VDEV" "$SCRATCH/work"
    [ ! -x "${POOLWRIGHT:-}" ] || "$POOLWRIGHT" pool export "$POOL" >/dev/null 2>&1 || true
    mkdir -p "$SCRATCH/work"
}

mount_cleanup() {
    trap - EXIT INT TERM ERR
    set +e
    mount_discard
    rm -rf -- "$SCRATCH"
}

# verdict NAME STATUS [REASON]: prints and counts one result.
verdict() {
    if [ "$2" -eq 0 ]; then
        PASSED=$((PASSED + 1))
        printf '%-44s ok\n' "$1"
    else
        FAILED=$((FAILED + 1))
        printf '%-44s FAILED: %s\n' "$1" "${3:-status $2}"
    fi
}

# last_line FILE: the last words of a log, for a verdict.
last_line() { grep -v '^[[:space:]]*$' "$1" 2>/dev/null | tail -n "${2:-1}" | tr '\n' ' ' | cut -c 1-300; }

# summary: the last line; its status says whether all passed.
summary() {
    printf '%s passed, %s failed\n' "$PASSED" "$FAILED"
    [ "$FAILED" -eq 0 ]
}
