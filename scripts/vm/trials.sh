# shellcheck shell=bash
# The guest's part of the part `trials`: scripts/test-kernel.sh runs this script in the guest. It runs trials in datasets of a pool of the
# kernel, and checks that the pool is as before. Each result is a line that starts with "pass" or "fail".
set -u
umask 022

export PATH=$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib HOME=/root TMPDIR=/scratch
POOL=trialpool
ON=$POOL/scratch
TRACE=/disk/sqlite.parquet

pass() { printf 'pass\t%s\n' "$*"; }
fail() { printf 'fail\t%s\n' "$*"; }

# check TEXT COMMAND...: the command must succeed.
check() {
    local text=$1
    shift
    if "$@" >/tmp/said 2>&1; then pass "$text"; else fail "$text: $(tail -n 12 /tmp/said | tr '\n' ' ')"; fi
}

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

# begin_replay DATABASE: starts `replay --on` in the background, and returns when a trial has its datasets.
begin_replay() {
    # A process group of its own, so that Ctrl-C can be sent as a terminal sends it.
    setsid poolwright replay "$TRACE" --data "$1" --on "$ON" --application -o recordsize=16K --repeat 50 >/tmp/replay.out 2>&1 &
    REPLAY=$!
    local waited=0
    while ! zfs list -H -o name -r "$ON" | grep -q 'poolwright-trial-[0-9]*/'; do
        sleep 0.3
        waited=$((waited + 1))
        [ $waited -lt 400 ] || { fail "no trial began: $(tail -n 3 /tmp/replay.out)"; return 1; }
    done
    sleep 2
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
    local place=$1 recommended
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
    check "a pool of the kernel is a target like the others (conformance)" env RUST_BACKTRACE=0 "POOLWRIGHT_TEST_DATASET=$ON" targets --exact a_pool_of_the_kernel_conforms
    nothing_left "conformance"
    expected 2 "a dataset that does not exist" poolwright replay "$TRACE" --data "$place" --on "$POOL/none"
    expected 2 "without privilege" /disk/bin/setpriv --reuid 65534 --clear-groups poolwright replay "$TRACE" --data "$place" --on "$ON" --scratch /tmp
    check "replay --on, two settings" sh -c "poolwright replay $TRACE --data $place --on $ON --application --first 15s -o recordsize=8K,128K --json >/tmp/replay.json"
    check "each setting has a result" grep -q '"pool_load".*"pool_load"' /tmp/replay.json
    nothing_left "replay"
    check_interruptions "$place"
    if poolwright tune "$place" --trace "$TRACE" --on "$ON" --budget 400s --plan /disk/plan.json --report /scratch/report.html --force --verbose >/disk/tune.out 2>/tmp/said; then
        recommended=$(zfs get -H -o value recordsize "$POOL/db")
        pass "tune --on recommends a change (recordsize now $recommended)"
    else
        fail "tune --on ended with status $?: $(tail -n 4 /tmp/said | tr '\n' ' ')"
    fi
    check "the plan says where its trials ran" grep -q "\"dataset\": *\"$ON\"" /disk/plan.json
    nothing_left "tune"
    expected 1 "tune ends when it has written as much as it may" poolwright tune "$place" --trace "$TRACE" --on "$ON" --budget 60s --max-bytes 1M --plan /scratch/p.json --report /scratch/r.html
    zpool export "$POOL"
}

step=$1
shift
"step_$step" "$@"
