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
    mkdir "$MNT" "$SCRATCH/work"
    trap mount_cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mount_program
}

# The program that mounts; built if it is not there.
mount_program() {
    SERVE=${POOLWRIGHT_SERVE:-}
    [ -z "$SERVE" ] || return 0
    (cd "$POOLWRIGHT_ROOT" && cargo build --release --locked --quiet -p poolwright-mount --example serve)
    SERVE=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/examples/serve
}

# mount_up MODE: imports the pool (or makes it, if its file is not there) and mounts it; MODE is through, pages or writeback.
mount_up() {
    local mode=$1 waited=0
    # Not read from a terminal, and not stopped by its Ctrl-C before the databases are.
    setsid "$SERVE" "$VDEV" "$MNT" "$mode" </dev/null >>"$SCRATCH/serve.log" 2>&1 &
    MOUNT_PID=$!
    until grep -qs " $MNT fuse" /proc/mounts; do
        kill -0 "$MOUNT_PID" 2>/dev/null || { tail -n 5 "$SCRATCH/serve.log" >&2; return 1; }
        [ "$waited" -lt 600 ] || { warn "not mounted after 60 s"; return 1; }
        sleep 0.1
        waited=$((waited + 1))
    done
    # The mount is shown before it is served.
    timeout 30 stat -- "$MNT" >/dev/null
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
    local pidfile pid
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
    while grep -qs " $MNT fuse" /proc/mounts; do
        umount -l "$MNT" 2>/dev/null || break
    done
    rm -rf -- "$VDEV" "$SCRATCH/work"
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
