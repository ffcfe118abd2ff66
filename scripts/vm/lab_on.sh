# shellcheck shell=bash
# The guest's part of the part `lab`: scripts/test-kernel.sh runs this script in the guest. It runs a campaign in datasets of a pool of the
# kernel (poolwright lab run --on), and checks that the pool is as before. Each result is a line that starts with "pass" or "fail".
set -u
umask 022

export PATH=/disk/bin:$PATH LD_LIBRARY_PATH=/disk/lib HOME=/root TMPDIR=/scratch PYTHONHOME=/disk/python PYTHONDONTWRITEBYTECODE=1
export POOLWRIGHT_HOME=/disk/share
POOL=labpool
ON=$POOL/scratch
# shellcheck source=scripts/vm/pool_state.sh
. /disk/pool_state.sh

# lab ARGUMENT...: runs the campaign with files instead of a database.
lab() { poolwright lab run /disk/smoke.toml --on "$ON" --scratch /scratch "$@"; }

# begin_lab: starts a run in the background, and returns when a trial has its datasets.
begin_lab() {
    # A process group of its own, so that Ctrl-C can be sent as a terminal sends it.
    setsid poolwright lab run /disk/smoke.toml --on "$ON" --scratch /scratch --scale long --results /scratch/long.db >/tmp/lab.out 2>&1 &
    LAB=$!
    await_trial /tmp/lab.out
}

check_interruptions() {
    begin_lab || return 0
    zfs get -H -o property,value quota,sync,atime,checksum "$(zfs list -H -o name -r "$ON" | grep -m 1 'poolwright-trial-[0-9]*/')" >/tmp/properties
    if grep -q 'sync.standard' /tmp/properties && grep -q 'checksum.on' /tmp/properties; then
        pass "a trial does not inherit sync and checksum of the scratch dataset"
    else
        fail "a trial has $(tr '\n' ' ' </tmp/properties)"
    fi
    kill -INT -- -$LAB
    wait $LAB
    nothing_left "Ctrl-C (status $?)"
    begin_lab || return 0
    kill -9 $LAB
    wait $LAB 2>/dev/null
    nothing_left "kill -9 of the program"
    begin_lab || return 0
    kill -9 -- -$LAB
    wait $LAB 2>/dev/null
    nothing_left "kill -9 of the program and the trial"
    expect "Run the same command again to continue" lab --scale long --results /scratch/long.db --json
    trials=$(poolwright lab report smoke --results /scratch/long.db --json | grep -o '"done":[0-9]*' | head -n 1)
    if [ "$trials" = '"done":10' ]; then pass "each trial is there once ($trials)"; else fail "the results have $trials instead of 10"; fi
    nothing_left "the run that was continued"
}

# confirm ARGUMENT...: confirms a plan of a database of two files, of which the log gets a dataset of its own.
confirm() {
    poolwright confirm /disk/confirm.json --on "$ON" --scratch /scratch --blocks 2 -o /tmp/confirmed.json --report /tmp/confirmed.html --force "$@"
}

# What a trial's load does: it writes the datasets' settings down, and syncs.
# shellcheck disable=SC2016 # the trial's shell expands it
LOAD='cd "$POOLWRIGHT_DIR" && for n in . log; do echo "$POOLWRIGHT_SETTING $n $(zfs list -H -o recordsize,compression,logbias,sync,quota "$PWD/$n")" >>/tmp/loads; done
    for n in 1 2 3 4; do dd if=/dev/urandom of=app.db bs=16k count=32 seek=$((n * 32)) conv=notrunc,fsync; dd if=/dev/zero of=log/2 bs=64k count=8 conv=fsync; done; echo work 4'

# begin_confirmation: starts one in the background whose load does not end, and returns when a trial has its datasets.
begin_confirmation() {
    setsid poolwright confirm /disk/confirm.json --on "$ON" --scratch /scratch --blocks 2 -o /tmp/c.json --report /tmp/c.html --force \
        --load 'sleep 600' >/tmp/confirm.out 2>&1 &
    CONFIRM=$!
    await_trial /tmp/confirm.out
}

check_confirm() {
    mkdir -p /scratch/app/log
    dd if=/dev/urandom of=/scratch/app/app.db bs=64k count=64 2>/dev/null
    dd if=/dev/zero of=/scratch/app/log/1 bs=64k count=16 2>/dev/null
    rm -f /tmp/loads
    confirm --load "$LOAD" >/tmp/said 2>&1
    case $? in
        0 | 4) pass "confirm --on: $(grep -m 1 . /tmp/said)" ;;
        *) fail "confirm --on: $(tail -n 4 /tmp/said | tr '\n' ' ')" ;;
    esac
    if grep -q '^today .[[:space:]]*128K.lz4.latency.standard' /tmp/loads && grep -q '^recommended .[[:space:]]*16K.zstd-3.latency.standard' /tmp/loads &&
        grep -q '^recommended log[[:space:]]*64K.*throughput.standard' /tmp/loads; then
        pass "each setting has its datasets, and the log one of its own"
    else
        fail "the datasets of the settings: $(sort -u /tmp/loads | tr '\n' ';')"
    fi
    if grep -q '"vdev_write_bytes"' /tmp/confirmed.json && ! grep -q 'mounted pool of the user-space engine' /tmp/confirmed.json; then
        pass "the confirmation has the pool's figures"
    else
        fail "the confirmation is not as expected: $(grep -c . /tmp/confirmed.json) lines"
    fi
    nothing_left "confirm --on"
    expected 2 "confirm below a dataset that does not exist" poolwright confirm /disk/confirm.json --on "$POOL/none" --load true
    expected 2 "confirm without privilege" /disk/bin/setpriv --reuid 65534 --clear-groups poolwright confirm /disk/confirm.json --on "$ON" --load true
    begin_confirmation || return 0
    kill -INT -- -$CONFIRM
    wait $CONFIRM
    nothing_left "Ctrl-C of a confirmation (status $?)"
    begin_confirmation || return 0
    kill -9 -- -$CONFIRM
    wait $CONFIRM 2>/dev/null
    nothing_left "kill -9 of a confirmation and its trial"
}

step_lab() {
    mkdir -p /scratch /usr/bin
    [ -e /usr/bin/env ] || ln -s /bin/env /usr/bin/env
    mount -t tmpfs -o size=1G tmpfs /scratch
    truncate -s 12G "/disk/$POOL"
    zpool create -f -o ashift=12 -O mountpoint=none -O atime=off "$POOL" "/disk/$POOL" || { fail "zpool create"; return; }
    # Properties that a trial must not inherit.
    zfs create -o mountpoint=none -o sync=disabled -o checksum=sha512 -o compression=gzip-9 "$ON" || { fail "zfs create $ON"; return; }
    zfs snapshot "$ON@kept"
    zpool sync "$POOL"
    state >/tmp/before
    used >/tmp/used
    expect "datasets of the kernel are a target like the others (conformance)" env RUST_BACKTRACE=0 "POOLWRIGHT_TEST_DATASET=$ON" lab_targets --exact lab_targets::a_dataset_of_the_kernel
    nothing_left "conformance"
    expected 2 "a dataset that does not exist" poolwright lab run /disk/smoke.toml --on "$POOL/none" --scratch /scratch
    expected 2 "without privilege" /disk/bin/setpriv --reuid 65534 --clear-groups poolwright lab run /disk/smoke.toml --on "$ON" --scratch /tmp
    expected 2 "a study that needs empty caches" poolwright lab run /disk/cold.toml --on "$ON" --scratch /scratch
    expect "lab run --on" lab --results /scratch/small.db
    poolwright lab report smoke --results /scratch/small.db >/disk/report.txt 2>/tmp/said || fail "lab report: $(cat /tmp/said)"
    if grep -q 'Compression of the files: lz4' /disk/report.txt && grep -q "dataset $ON" /disk/report.txt; then
        pass "the report: $(grep -m 1 'During the trials' /disk/report.txt)"
    else
        fail "the report is not as expected: $(head -n 12 /disk/report.txt | tr '\n' ' ')"
    fi
    nothing_left "lab run"
    expected 1 "a run ends when the pool has written as much as it may" lab --results /scratch/limited.db --max-bytes 100K
    nothing_left "the limited run"
    check_interruptions
    check_confirm
    zpool export "$POOL"
}

step=$1
shift
"step_$step" "$@"
