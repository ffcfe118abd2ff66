# shellcheck shell=bash
# Functions of the guest's scripts that run trials in datasets of a pool of the kernel: the pool must be as before. The script that sources
# this file sets POOL and ON, the dataset below which trials create theirs.

# shellcheck source=scripts/vm/guest.sh
. /guest.sh

# state: the datasets and snapshots of the pool, their properties with sources, and the mounts. Not the space and the times that reading
# changes.
state() {
    zfs list -H -r -t all -o name "$POOL"
    zfs get -H -p -r -o name,property,value,source all "$POOL" |
        grep -vE "$(printf '\t')(used|available|referenced|written|logicalused|logicalreferenced|usedby[a-z]*|compressratio|refcompressratio|objsetid|snapshots_changed)$(printf '\t')"
    zpool get -H -p -o property,value,source all "$POOL" | grep -vE '^(allocated|free|fragmentation|capacity|freeing|bclone[a-z]*|dedup_[a-z_]*|last_scrubbed_txg)'
    grep " zfs " /proc/mounts
}

# used: the bytes that the pool's datasets use, when all that was freed is free.
used() {
    local n
    for ((n = 0; n < 10; n++)); do
        zpool sync "$POOL"
        [ "$(zpool get -Hp -o value freeing "$POOL")" != 0 ] || break
        sleep 1
    done
    zfs get -Hp -o value used "$POOL"
}

# nothing_left TEXT: the pool must be as in /tmp/before; its datasets may use a little more space, of the pool's own metadata.
nothing_left() {
    local now waited=0
    # A guardian destroys the datasets of a killed trial.
    while zfs list -H -o name -r "$ON" | grep -q poolwright-trial && [ $waited -lt 60 ]; do
        sleep 1
        waited=$((waited + 1))
    done
    state >/tmp/after
    now=$(used)
    if cmp -s /tmp/before /tmp/after; then
        pass "$1: datasets, snapshots, properties with sources and mounts are as before (after $waited s)"
    else
        fail "$1: $(diff /tmp/before /tmp/after | head -n 6 | tr '\n' ' ')"
    fi
    if [ $((now - $(cat /tmp/used))) -lt $((1 << 20)) ]; then
        pass "$1: the pool uses $(cat /tmp/used) bytes before and $now after"
    else
        fail "$1: the pool used $(cat /tmp/used) bytes before and uses $now after"
    fi
}

# expected STATUS TEXT COMMAND...: the command must end with this status.
expected() {
    local wanted=$1 text=$2 status=0
    shift 2
    "$@" >/tmp/said 2>&1 || status=$?
    if [ $status -eq "$wanted" ]; then
        pass "$text: status $status: $(grep -v '^$' /tmp/said | tail -n 2 | tr '\n' ' ')"
    else
        fail "$text: status $status instead of $wanted: $(tail -n 4 /tmp/said | tr '\n' ' ')"
    fi
}

# await_trial LOG: returns when a trial has its datasets, and has worked in them for a moment.
await_trial() {
    local waited=0
    while ! zfs list -H -o name -r "$ON" | grep -q 'poolwright-trial-[0-9]*/'; do
        sleep 0.3
        waited=$((waited + 1))
        [ $waited -lt 400 ] || { fail "no trial began: $(tail -n 3 "$1")"; return 1; }
    done
    sleep 2
}
