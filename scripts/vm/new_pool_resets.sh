# shellcheck shell=bash
# The guest's part of the part `newpoolresets`: scripts/test-kernel.sh runs this script in a guest that boots again after a reset. It resets
# the guest at random points of `poolwright apply --new-pool` and of `poolwright undo` after it, continues or goes back after the boot, and
# compares the tree, the properties and the datasets. Each result is a line that starts with "pass" or "fail".
#
# usage: new_pool_resets.sh resets SEED NODES RESETS     RESETS for each direction
#
# /disk/round describes the round that a reset has interrupted: its number and how many resets it has had.
set -u
umask 022

export PATH=$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/disk/state HOME=/root
KEPT=/disk/kept

# shellcheck source=scripts/vm/guest.sh
. /guest.sh
# shellcheck source=scripts/vm/reset_rounds.sh
. /disk/reset_rounds.sh
# shellcheck source=scripts/vm/moved_tree.sh
. /disk/moved_tree.sh

# duration COMMAND: sets TOOK to the microseconds that an undisturbed run takes.
duration() {
    local start
    start=$(now)
    expect "an undisturbed run ($1)" "$1" || exit 1
    TOOK=$(($(now) - start))
}

prepare() {
    mkdir -p "$KEPT"
    make_pools "$SEED" "$NODES"
    poolwright apply /disk/plan.json --new-pool fast --dry-run >/dev/null
    duration move
    duration undo
    # Nothing was written, so it only exchanges the mounts.
    echo "$TOOK" >"$KEPT/exchange"
    duration move
    echo "$TOOK" >"$KEPT/move"
    echo later >$MOUNT/log/later
    duration undo
    echo "$TOOK" >"$KEPT/undo"
    rm $MOUNT/log/later
    touch -d '2003-04-05 06:07:08' $MOUNT/log
    manifest "$KEPT/before"
    zpool export tank fast
    echo 1 >/disk/next
    sync
}

import() {
    mkdir -p /usr/bin $MOUNT
    ln -sf /bin/busybox /usr/bin/env
    zpool import -f -d /disk/live tank && zpool import -f -d /disk/live fast
}

# reset_during COMMAND [DURATION]: starts a run, and resets the guest at a random point of it. The file DURATION (or else COMMAND) has the
# microseconds that an undisturbed run takes. Returns if the run has ended before.
reset_during() {
    local pid
    [ $((RANDOM % 2)) -eq 1 ] || sync_always
    random "$(cat "$KEPT/${2:-$1}")"
    "$1" >/disk/said 2>&1 &
    pid=$!
    reset_after "$R" $pid
    wait $pid || fail "$1 without a reset: $(tail -n 4 /disk/said | tr '\n' ' ')"
    stop_sync
}

# written: a file that is written on the new pool comes back with it. Sets KIND to the file with the duration of the undo.
written() {
    KIND=exchange
    [ $(($1 % 4)) -eq 0 ] || return 0
    KIND=undo
    echo "written in round $1" >$MOUNT/table.later
    touch -d '2011-12-13 14:15:16' $MOUNT/table.later $MOUNT
    manifest "$KEPT/before"
}

# round NUMBER: odd rounds interrupt a move, even ones its undo. Ends with a reset.
round() {
    local run=move
    KIND=move
    RANDOM=$(((SEED * 7919 + $1) % 32768))
    import || { fail "round $1: the pools cannot be imported"; exit 1; }
    for _ in 1 2 3 4 5 6 7 8; do
        if [ $(($1 % 2)) -eq 0 ]; then
            run=undo
            move >/tmp/said 2>&1 || fail "round $1: move: $(tail -n 4 /tmp/said | tr '\n' ' ')"
            written "$1"
        fi
        echo "$1 1" >/disk/round
        sync
        reset_during $run $KIND
        rm /disk/round
        [ $run = undo ] || undo >/tmp/said 2>&1 || fail "round $1: undo: $(tail -n 4 /tmp/said | tr '\n' ' ')"
    done
    fail "round $1: the run ended before each of 8 chosen points"
}

# after_reset: ends the round that a reset has interrupted. In every third round, a second reset interrupts the run that continues.
after_reset() {
    local number resets text phase way=undo
    read -r number resets </disk/round
    BEFORE=$(cat "$KEPT/properties")
    EVERYTHING=$(cat "$KEPT/everything")
    [ $((number % 4)) -ne 1 ] || way=move
    phase=$(cat /disk/state/apply/*/migration.json 2>/dev/null | tr -d ' \n' | sed 's/.*"direction":"\([a-z]*\)","phase":"\([a-z]*\)".*/\1, \2/')
    if ! import; then
        fail "round $number: the pools cannot be imported after the reset"
        exit 1
    fi
    text="round $number: reset $resets (${phase:-before the state}; $(tail -n 1 /disk/said | cut -c 1-60)), mounted: $(places)then $way"
    if [ $((number % 3)) -eq 0 ] && [ "$resets" -eq 1 ] && [ -n "$phase" ]; then
        pass "$text"
        RANDOM=$(((SEED * 7919 + number + 10000) % 32768))
        echo "$number 2" >/disk/round
        sync
        reset_during $way
    fi
    # A reset before the first state has left nothing to undo.
    if ! $way >/tmp/said 2>&1 && ! { [ $way = undo ] && [ -z "$phase" ] && grep -q 'was not applied' /tmp/said; }; then
        fail "$text: $(tail -n 6 /tmp/said | tr '\n' ' ')"
        exit 1
    fi
    if [ $way = move ]; then
        same "$text: it is on the new pool" "$(places)" "fast/db fast/db/log "
        unchanged "$text"
        undo >/tmp/said 2>&1 || fail "$text: a later undo: $(tail -n 4 /tmp/said | tr '\n' ' ')"
    fi
    on_tank "$text"
    [ $((number % 4)) -ne 3 ] || { zpool scrub -w tank; zpool scrub -w fast; }
    same "round $number: both pools are healthy" "$(zpool status -x)" "all pools are healthy"
    zpool export tank fast 2>/tmp/said || fail "round $number: export: $(cat /tmp/said)"
    rm -f /disk/round
    echo $((number + 1)) >/disk/next
    sync
}

conclude() { pass "$RESETS rounds in each direction"; }

step=$1
SEED=$2
NODES=$3
RESETS=$4
"step_$step"
