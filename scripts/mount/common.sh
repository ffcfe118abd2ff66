# shellcheck shell=bash
# Functions that the tests of the mount share: a private pool on a sparse file, its mount process, results, and cleaning up.
# Sourced after scripts/lib.sh.

MOUNT_PID=
PASSED=0
FAILED=0

# mount_prepare: checks the requirements and makes the scratch directory, in POOLWRIGHT_SCRATCH (default: /dev/shm if it has enough free
# space, otherwise /tmp). The pool's file is in it.
mount_prepare() {
    local base=${POOLWRIGHT_SCRATCH:-/dev/shm}
    [ -e /dev/fuse ] || die 1 "/dev/fuse does not exist: the kernel does not provide FUSE"
    [ "$(id -u)" -eq 0 ] || die 2 "these tests require root, because they run servers as other users on the mount"
    [ -n "${POOLWRIGHT_SCRATCH:-}" ] || [ "$(free_mib "$base" 2>/dev/null || echo 0)" -ge 4096 ] || base=/tmp
    SCRATCH=$(mktemp -d "$base/poolwright-mount.XXXXXX")
    chmod 755 "$SCRATCH"
    MNT=$SCRATCH/mnt
    VDEV=$SCRATCH/vdev
    # A unique name, because pool names are shared by all programs of this user.
    POOL=mounttest$$
    mkdir "$MNT" "$SCRATCH/work"
    trap mount_cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mount_program
}

# Builds the program, unless POOLWRIGHT names one. With MOUNT_FEATURES, builds in a separate directory, so that a program with simulated
# power failures is never mistaken for the shipped one.
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

# mount_up MODE: mounts the pool, and creates it first if its file does not exist; MODE is through, pages or writeback.
mount_up() {
    local mode=$1 waited=0
    if [ ! -e "$VDEV" ]; then
        "$POOLWRIGHT" pool create "$POOL" "$VDEV" -O recordsize=16K -O compression=lz4 >/dev/null
    fi
    : >"$SCRATCH/mounted.log"
    # In a separate session, so that Ctrl-C does not end the mount before the databases.
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

# mount_down: unmounts, and waits until the pool is exported. Fails if the mount is in use, or if the process fails.
mount_down() {
    local status=0 waited=0
    until umount "$MNT" 2>"$SCRATCH/umount.log"; do
        [ "$waited" -lt 50 ] || { cat "$SCRATCH/umount.log" >&2; return 1; }
        sleep 0.1
        waited=$((waited + 1))
    done
    waited=0
    while mount_alive; do
        [ "$waited" -lt 1200 ] || { warn "the mount process is still running 120 s after umount"; return 1; }
        sleep 0.1
        waited=$((waited + 1))
    done
    wait "$MOUNT_PID" || status=$?
    MOUNT_PID=
    [ $status -eq 0 ] || { warn "the mount process exited with status $status"; tail -n 5 "$SCRATCH/serve.log" >&2; }
    return $status
}

# mount_discard: kills the programs on the mount and the mount process, and removes the pool.
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
    # All mounts below the scratch directory, including those of the tests' programs.
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

# last_line FILE [N]: the last N (1) lines of a log that are not empty, on one line.
last_line() { grep -v '^[[:space:]]*$' "$1" 2>/dev/null | tail -n "${2:-1}" | tr '\n' ' ' | cut -c 1-300; }

# summary: prints the totals; fails if a test failed.
summary() {
    printf '%s passed, %s failed\n' "$PASSED" "$FAILED"
    [ "$FAILED" -eq 0 ]
}
