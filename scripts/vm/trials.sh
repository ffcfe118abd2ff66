# shellcheck shell=bash
# The guest's part of the part `trials`: scripts/test-kernel.sh runs this script in the guest. It runs trials in datasets of a pool of the
# kernel, and checks that the pool is as before. Each result is a line that starts with "pass" or "fail".
set -u
umask 022

export PATH=$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib HOME=/root TMPDIR=/scratch
POOL=trialpool
ON=$POOL/scratch
TRACE=/disk/sqlite.parquet

# shellcheck source=scripts/vm/pool_state.sh
. /disk/pool_state.sh

# begin_replay DATABASE: starts `replay --on` in the background, and returns when a trial has its datasets.
begin_replay() {
    # A process group of its own, so that Ctrl-C can be sent as a terminal sends it.
    setsid poolwright replay "$TRACE" --data "$1" --on "$ON" --application -o recordsize=16K --repeat 50 >/tmp/replay.out 2>&1 &
    REPLAY=$!
    await_trial /tmp/replay.out
}

check_interruptions() {
    begin_replay "$1" || return 0
    zfs get -H -o property,value quota,sync,atime,checksum "$(zfs list -H -o name -r "$ON" | grep -m 1 'poolwright-trial-[0-9]*/')" >/tmp/properties
    if grep -q 'sync.standard' /tmp/properties && grep -q 'checksum.on' /tmp/properties; then
        pass "a trial does not inherit sync and checksum of the scratch dataset"
    else
        fail "a trial has $(tr '\n' ' ' </tmp/properties)"
    fi
    kill -INT -- -$REPLAY
    wait $REPLAY
    nothing_left "Ctrl-C (status $?)"
    begin_replay "$1" || return 0
    kill -9 $REPLAY
    wait $REPLAY 2>/dev/null
    nothing_left "kill -9 of the program"
    begin_replay "$1" || return 0
    kill -9 -- -$REPLAY
    wait $REPLAY 2>/dev/null
    nothing_left "kill -9 of the program and the trial"
}

step_trials() {
    local place=$1
    mkdir -p /scratch
    mount -t tmpfs -o size=1G tmpfs /scratch
    truncate -s 6G "/disk/$POOL"
    zpool create -f -o ashift=12 -O mountpoint=none -O atime=off "$POOL" "/disk/$POOL" || { fail "zpool create"; return; }
    zfs create -o "mountpoint=$place" "$POOL/db" || { fail "zfs create"; return; }
    cp /disk/data/* "$place/"
    # For a user without privilege.
    chmod 644 "$TRACE" "$place"/*
    # Properties that a trial must not inherit.
    zfs create -o mountpoint=none -o sync=disabled -o checksum=sha512 -o compression=gzip-9 "$ON" || { fail "zfs create $ON"; return; }
    zfs snapshot "$ON@kept"
    zpool sync "$POOL"
    state >/tmp/before
    used >/tmp/used
    expect "a pool of the kernel is a target like the others (conformance)" env RUST_BACKTRACE=0 "POOLWRIGHT_TEST_DATASET=$ON" targets --exact a_pool_of_the_kernel_conforms
    nothing_left "conformance"
    expected 2 "a dataset that does not exist" poolwright replay "$TRACE" --data "$place" --on "$POOL/none"
    expected 2 "without privilege" /disk/bin/setpriv --reuid 65534 --clear-groups poolwright replay "$TRACE" --data "$place" --on "$ON" --scratch /tmp
    expect "replay --on, two settings" sh -c "poolwright replay $TRACE --data $place --on $ON --application --first 15s -o recordsize=8K,128K --json >/tmp/replay.json"
    expect "each setting has a result" grep -q '"pool_load".*"pool_load"' /tmp/replay.json
    nothing_left "replay"
    check_interruptions "$place"
    expected 1 "replay ends when it has written as much as it may" poolwright replay "$TRACE" --data "$place" --on "$ON" --application --max-bytes 1M
    nothing_left "the limit of bytes"
    zpool export "$POOL"
}

step=$1
shift
"step_$step" "$@"
