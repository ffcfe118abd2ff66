# shellcheck shell=bash
# The guest's part of the part `resets`: scripts/test-kernel.sh runs this script in a guest that boots again after a reset. It resets the
# guest at random points of `poolwright apply` and `poolwright undo`, continues or goes back after the boot, and compares the result with
# that of an undisturbed run. Each result is a line that starts with "pass" or "fail".
#
# usage: resets.sh resets SEED NODES RESETS     RESETS for each direction
#
# /disk/saved has the pool and Poolwright's state directory at the beginning of a round, and what undisturbed runs leave. /disk/round
# describes the round that a reset has interrupted. /disk/log has a line for each reset.
set -u
umask 022

export PATH=$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/disk/state HOME=/root
POOL=tank
DATASET=$POOL/db
MOUNT=/srv/db
# The plan moves the directory `wal` into a dataset of its own, which is mounted here.
WAL_MOUNT=/srv/db-wal
SAVED=/disk/saved
NOW=/tmp/now
# Field 2 of the manifest, the object number: a rewritten file has a new one.
WITHOUT_OBJECTS=1,3-

# shellcheck source=scripts/vm/guest.sh
. /guest.sh
# shellcheck source=scripts/vm/reset_rounds.sh
. /disk/reset_rounds.sh
# shellcheck source=scripts/vm/described_tree.sh
. /disk/described_tree.sh

# poolwright_run RUN [PREFIX...]: performs a run, by a command with this prefix.
poolwright_run() {
    local verb=undo
    [ "$1" != apply ] || verb=apply
    shift
    "$@" poolwright $verb /disk/plan.json --yes
}

# entries: reads the journal; ENTRIES are its lines.
entries() {
    local file
    ENTRIES=()
    for file in /disk/state/apply/*/journal.jsonl; do
        [ ! -e "$file" ] || mapfile -t ENTRIES <"$file"
    done
}

# phase_of RUN BEFORE: sets PHASE to the phase of an interrupted run, whose journal had BEFORE entries at its begin.
phase_of() {
    local last=none
    entries
    [ ${#ENTRIES[@]} -eq 0 ] || last=${ENTRIES[-1]}
    case $last in
        *'"entry":"begin"'*) PHASE=copying ;;
        *'"phase":"'*) PHASE=${last##*'"phase":"'} PHASE=${PHASE%%'"'*} ;;
        *) PHASE="before begin" ;;
    esac
    if [ "$PHASE" = "done" ] && [ ${#ENTRIES[@]} -eq "$2" ]; then PHASE="before begin"; fi
    if [ "$PHASE" = copying ] && [ "$1" = rollback ]; then PHASE="rolling back"; fi
}

import() { zpool import -f -d /disk/live "$POOL" && grep -q " $MOUNT zfs " /proc/mounts; }

# restore NAME: the pool and the state directory as they were saved.
restore() {
    rm -rf /disk/live /disk/state
    mkdir -p /disk/live
    /disk/bin/cp --sparse=always "$SAVED/$1/pool" /disk/live/pool
    [ ! -e "$SAVED/$1/state" ] || /disk/bin/cp -a "$SAVED/$1/state" /disk/state
    sync
    import || fail "importing the pool '$1'"
}

# save NAME: the pool and the state directory, for rounds that begin with them. Exports the pool.
save() {
    zpool export "$POOL"
    mkdir -p "$SAVED/$1"
    /disk/bin/cp --sparse=always /disk/live/pool "$SAVED/$1/pool"
    [ ! -e /disk/state ] || /disk/bin/cp -a /disk/state "$SAVED/$1/state"
}

# watch RUN: performs a run, and writes the time at which each of its phases began, and its end, to $SAVED/RUN.times.
watch() {
    local start pid count before times=() status=0
    entries
    before=${#ENTRIES[@]}
    start=$(now)
    poolwright_run "$1" >/tmp/said 2>&1 &
    pid=$!
    times=(0)
    while kill -0 $pid 2>/dev/null; do
        entries
        count=$((${#ENTRIES[@]} - before))
        while [ ${#times[@]} -le $count ]; do times+=($(($(now) - start))); done
        pause 0.002
        if [ $(($(now) - start)) -gt 300000000 ]; then
            fail "a run ($1) does not end: $(head -n 3 /proc/$pid/status | tr '\n' ' '), kernel: $(tail -n 4 /proc/$pid/task/*/stack | tr '\n' ' '), its last lines: $(tail -n 5 /tmp/said | tr '\n' ' ')"
            exit 1
        fi
    done
    wait $pid || status=$?
    entries
    count=$((${#ENTRIES[@]} - before))
    while [ ${#times[@]} -le $count ]; do times+=($(($(now) - start))); done
    times+=($(($(now) - start)))
    echo "${times[@]}" >"$SAVED/$1.times"
    if [ $status -eq 0 ]; then
        pass "an undisturbed run ($1): its phases begin after $(for t in "${times[@]}"; do printf '%s ' "$(seconds "$t")"; done)s (the last is the end)"
    else
        fail "an undisturbed run ($1) gave $status: $(tail -n 8 /tmp/said | tr '\n' ' ')"
        exit 1
    fi
}

# A tree with everything that a file can have, and what undisturbed runs make of it.
prepare() {
    mkdir -p /disk/live $SAVED $MOUNT
    truncate -s 1G /disk/live/pool
    zpool create -f -o ashift=12 -O mountpoint=none -O compression=lz4 -O xattr=sa -O acltype=posix -O atime=off "$POOL" /disk/live/pool
    # One property has a local value before, one an inherited and one a default.
    zfs create -o mountpoint=$MOUNT -o logbias=latency "$DATASET"
    zfs create -o mountpoint=/srv/below "$DATASET/below"
    tree make $MOUNT "$SEED" "$NODES" || { fail "making the tree"; exit 1; }
    yes "a row of a table" | head -c 3000000 >$MOUNT/table
    ln $MOUNT/table $MOUNT/table.second
    mkdir -p $MOUNT/linked $MOUNT/other
    # So many that a part of the resets comes between two names of the file.
    for n in $(seq 1 100); do ln $MOUNT/table "$MOUNT/linked/$n"; done
    for n in $(seq 1 20); do ln $MOUNT/table "$MOUNT/other/$n"; done
    dd if=/dev/zero of=$MOUNT/holes bs=1 count=1 seek=40M 2>/dev/null
    mkdir -p $MOUNT/wal/status
    for n in $(seq 1 12); do yes "record $n" | head -c $((n * 40000)) >"$MOUNT/wal/$n"; done
    ln $MOUNT/wal/12 $MOUNT/wal/status/12
    ln -s ../table $MOUNT/wal/link
    chmod 2750 $MOUNT/wal
    touch -d '2003-04-05 06:07:08' $MOUNT/wal/3 $MOUNT/wal/status $MOUNT/wal
    for n in $(seq 1 60); do yes "row $n" | head -c $((n * 1700)) >"$MOUNT/linked/small$n"; done
    touch -d '2001-02-03 04:05:06' $MOUNT/linked/small7 $MOUNT/linked $MOUNT/other
    sed 's|@RECOMMENDED@|"recordsize":"16K","compression":"zstd-3","logbias":"throughput"|' /disk/plan.template >/disk/plan.json
    save base
    import
    # Now, because the kernel rounds the block size of a file that is in its memory since it was made.
    describe $SAVED/base/expected
    pass "a tree: $(wc -l <$SAVED/base/expected/tree) names, $(du -sk /disk/live/pool | cut -f 1) KB"

    # The program is in the page cache afterwards.
    poolwright apply /disk/plan.json --dry-run >/dev/null
    watch apply
    describe $NOW
    local wrong
    wrong=$(awk -F '\t' '$11 != "-" && $11 != ($1 ~ /^db:\/wal\// ? 65536 : 16384) && $3 == "file"' $NOW/full | wc -l)
    [ "$wrong" -eq 0 ] || fail "after an undisturbed apply, $wrong files have another block size than 16K, or 64K in the log"
    [ -L $MOUNT/wal ] || fail "after an undisturbed apply, the log is not a link"
    # Without the block size. The log is a link now, and not a directory of the root directory.
    without_counts_of_root <$NOW/full | cut -f 1,3-10,12- >/tmp/a
    without_counts_of_root <$SAVED/base/expected/full | cut -f 1,3-10,12- >/tmp/b
    cmp -s /tmp/a /tmp/b || fail "an undisturbed apply changed the tree: $(diff /tmp/b /tmp/a | head -n 4 | cut -c 1-250 | tr '\n' '|')"
    wrong=$(snapshot_differences)
    [ -z "$wrong" ] || fail "after an undisturbed apply, $wrong"
    save applied
    mv $NOW $SAVED/applied/expected

    import
    watch rollback
    describe $NOW
    wrong=$(differences $SAVED/base/expected $NOW)
    if [ -z "$wrong" ]; then pass "an undisturbed undo, by a rollback, leaves the state before"; else fail "an undisturbed rollback: $wrong"; fi
    zpool export "$POOL"

    restore applied
    echo later >$MOUNT/later
    echo later >$MOUNT/wal/later
    touch -d '2005-06-07 08:09:10' $MOUNT/later $MOUNT $MOUNT/wal/later $MOUNT/wal/.
    save written
    restore written
    watch rewrite
    describe $NOW
    mv $NOW $SAVED/written/expected
    zpool export "$POOL"
    # Without the file that was written, it must be the state before.
    rm -rf /tmp/before
    cp -r $SAVED/base/expected /tmp/before
    cp -r $SAVED/written/expected $NOW
    for of in tree accessed block-sizes allocated; do
        # Their directories have the times of the later files.
        sed -i '/^db:\/\t/d; /^db:\/\(wal\/\)\{0,1\}later\t/d; /^db:\/wal\t/d; /^\.\(\/wal\)\{0,1\}\t/d; /^\.\/\(wal\/\)\{0,1\}later\t/d' \
            "/tmp/before/$of" "$NOW/$of"
    done
    wrong=$(differences /tmp/before $NOW)
    if [ -z "$wrong" ]; then pass "an undisturbed undo, by rewriting, leaves the state before and the later file"; else fail "an undisturbed undo: $wrong"; fi
    : >/disk/log
    echo 1 >/disk/next
    sync
}

# choose RUN SALT: sets WAIT_ENTRIES and WAIT, a random point of the run: so many microseconds after so many entries of the journal. Half
# of the points are uniform in time, half over the phases, of which some are short.
choose() {
    local times phases count at point
    read -ra times <"$SAVED/$1.times"
    # The run ends with the last phase, so there is one phase less.
    phases=$((${#times[@]} - 1))
    RANDOM=$(((SEED * 7919 + $2) % 32768))
    random 1000
    random $phases
    at=$R
    if [ $(($2 / 32 % 2)) -eq 0 ]; then
        random "${times[phases]}"
        point=$R
        at=0
        while [ $((at + 1)) -lt $phases ] && [ "$point" -ge "${times[at + 1]}" ]; do at=$((at + 1)); done
        WAIT=$((point - times[at]))
    else
        count=$((times[at + 1] - times[at]))
        random $((count + 1))
        WAIT=$R
    fi
    WAIT_ENTRIES=$at
    # Every second round, the pool syncs all the time, so that a reset leaves more than what a transaction group has collected.
    random 2
    SYNCS=$R
}

# choose_second RUN SALT: a random point of the run that continues after a reset: of all of it, or of the second after its first entry.
choose_second() {
    local times of=rewrite
    [ "$1" != apply ] || of=apply
    read -ra times <"$SAVED/$of.times"
    RANDOM=$(((SEED * 7919 + $2) % 32768))
    random 1000
    random 2
    WAIT_ENTRIES=$R
    if [ "$WAIT_ENTRIES" -eq 0 ]; then random "${times[-1]}"; else random 1000000; fi
    WAIT=$R
    random 2
    SYNCS=$R
}

# reset_during RUN: starts a run and resets the guest at the chosen point. Returns if the run has ended before.
reset_during() {
    local pid before status=0
    entries
    before=${#ENTRIES[@]}
    echo "$1 $before $WAIT_ENTRIES $WAIT $SYNCS" >/disk/point
    sync
    [ "$SYNCS" -eq 0 ] || sync_always
    poolwright_run "$1" >/tmp/said 2>&1 &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        entries
        if [ $((${#ENTRIES[@]} - before)) -ge "$WAIT_ENTRIES" ]; then
            reset_after "$WAIT" $pid
        fi
        pause 0.002
    done
    wait $pid || status=$?
    # The first reset may have come before the journal's first entry: then there is nothing to undo.
    if [ $status -ne 0 ] && ! { [ "$1" = undo ] && [ "$before" -eq 0 ] && grep -q 'was not applied' /tmp/said; }; then
        fail "$1 without a reset gave $status: $(tail -n 8 /tmp/said | tr '\n' ' ')"
    fi
    stop_sync
}

# look KIND: describes what the reset left, in LEFT, and in the log.
look() {
    local run before wanted wait_us syncs base=base copies replaced changed
    read -r run before wanted wait_us syncs </disk/point
    phase_of "$run" "$before"
    [ "$BEGIN" = base ] || base=applied
    copies=$(find $MOUNT/.poolwright-* -type f 2>/dev/null | wc -l)
    (cd $MOUNT && find . -xdev -type f ! -path './.poolwright-*' -exec /disk/bin/stat -c '%i' {} +) | sort -u >/tmp/inodes
    awk -F '\t' '$3 == "file" { print $2 }' "$SAVED/$base/expected/full" | sort -u >/tmp/inodes.before
    replaced=$(grep -cvxFf /tmp/inodes.before /tmp/inodes)
    changed=$(zfs get -Hp -r -t filesystem -o name,property,value,source all "$POOL" | awk -F '\t' '$4 != "-"' \
        | grep -cvxFf "$SAVED/$base/expected/properties")
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$PHASE" "$replaced" "$copies" "$(find $MOUNT/.poolwright-* -type f -links +1 2>/dev/null | wc -l)" >>/disk/log
    LEFT="${LEFT:-}$run reset in phase '$PHASE' (after entry $wanted + $(seconds "$wait_us") s$([ "$syncs" -eq 0 ] || echo ', syncing')), with $(zfs list -H -t snapshot | wc -l) snapshots, $copies copies, $replaced files replaced, $changed properties changed; "
}

# finish ROUND WAY: continues or goes back, and compares.
finish() {
    local round=$1 way=$2 command expected status=0 wrong text
    case $way in
        continue) command=apply expected=applied ;;
        back) command=undo expected=base ;;
        rollback) command=undo expected=base ;;
        rewrite) command=undo expected=written ;;
    esac
    if [ -n "$WRITTEN" ]; then
        # As by a database that has run in between.
        echo "written between two runs" >$MOUNT/linked/meanwhile
        touch -d '2011-12-13 14:15:16' $MOUNT/linked/meanwhile $MOUNT/linked
    fi
    poolwright_run $command timeout 900 >/tmp/said 2>&1 || status=$?
    # Before its first entry, there is nothing to undo.
    if [ $status -eq 3 ] && [ "$way" = back ] && [ ${#ENTRIES[@]} -eq 0 ] && grep -q 'was not applied' /tmp/said; then status=0; fi
    text="round $round: ${LEFT}then $command${WRITTEN:+ after a write}"
    if [ $status -ne 0 ]; then
        fail "$text gave $status: $(tail -n 8 /tmp/said | tr '\n' ' ')"
        return 1
    fi
    if [ -n "$WRITTEN" ]; then
        wrong=$(/disk/bin/stat -c '%.9Y' $MOUNT/linked/meanwhile $MOUNT/linked | sort -u | grep -v '^1323785716\.0*$' | tr '\n' ' ')
        [ -z "$wrong" ] || fail "$text: the directory has another time than after the write: $wrong"
        rm $MOUNT/linked/meanwhile
        touch -d '2001-02-03 04:05:06' $MOUNT/linked
    fi
    describe $NOW
    wrong=$(differences "$SAVED/$expected/expected" $NOW)
    if [ "$way" = continue ] && [ -z "$WRITTEN" ]; then wrong=$wrong$(snapshot_differences); fi
    if [ "$way" = continue ] && [ $((N % 4)) -eq 0 ] && [ -z "$wrong" ]; then
        # It can still be undone.
        if poolwright_run undo timeout 900 >/tmp/said 2>&1; then
            describe $NOW
            wrong=$(differences $SAVED/base/expected $NOW)
            [ -z "$wrong" ] || wrong="after a later undo, $wrong"
        else
            wrong="a later undo gave $?: $(tail -n 8 /tmp/said | tr '\n' ' ')"
        fi
    fi
    [ $((N % 4)) -ne 1 ] || zpool scrub -w "$POOL"
    [ "$(zpool status -x "$POOL")" = "pool '$POOL' is healthy" ] || wrong="$wrong the pool has errors"
    if [ -z "$wrong" ]; then pass "$text"; else fail "$text: $wrong"; return 1; fi
}

# way_of ROUND: what the round is. Odd rounds interrupt apply, even ones undo; N counts them.
way_of() {
    N=$((($1 + 1) / 2))
    if [ $(($1 % 2)) -eq 1 ]; then
        RUN=apply BEGIN=base WAY=continue
        [ $((N % 2)) -eq 0 ] || WAY=back
    elif [ $((N % 2)) -eq 0 ]; then
        RUN=rollback BEGIN=applied WAY=rollback
    else
        RUN=rewrite BEGIN=written WAY=rewrite
    fi
}

# round NUMBER: begins a round; it ends with a reset.
round() {
    local try
    way_of "$1"
    for try in 0 1 2 3 4 5 6 7; do
        restore $BEGIN
        echo "$1" >/disk/round
        choose "$RUN" $(($1 * 8 + try))
        reset_during "$RUN"
        # The run has ended before the chosen point: another try.
        rm /disk/round
        zpool export "$POOL"
    done
    fail "round $1: the run ended before each of 8 chosen points"
}

# after_reset: ends the round that a reset has interrupted. In some rounds, a second reset interrupts the run that continues or goes
# back; in others, something is written in between.
after_reset() {
    local number second='' run
    LEFT='' WRITTEN=''
    read -r number second </disk/round
    way_of "$number"
    if ! import; then
        fail "round $number: the pool cannot be imported after the reset"
        exit 1
    fi
    [ ! -e /disk/left ] || LEFT=$(cat /disk/left)
    look "${second:-$RUN}"
    case $((N % 8)) in
        2 | 3)
            if [ -z "$second" ]; then
                run=undo
                [ "$WAY" != continue ] || run=apply
                echo "$number second" >/disk/round
                echo "$LEFT" >/disk/left
                choose_second $run $((number * 8 + 100003))
                reset_during $run
                # It has ended before: this round has one reset.
            fi
            ;;
        4) case $WAY,$PHASE in continue,copying | continue,stopped) WRITTEN=yes ;; esac ;;
    esac
    if ! finish "$number" "$WAY"; then
        zpool export "$POOL"
        mkdir -p "/disk/failed.$number"
        cp /tmp/said /disk/live/pool "/disk/failed.$number/"
        [ -e /disk/state ] && cp -a /disk/state "/disk/failed.$number/"
    else
        zpool export "$POOL"
    fi
    rm -f /disk/round /disk/left
    echo $((number + 1)) >/disk/next
    sync
}

# conclude: how the resets were spread.
conclude() {
    local kind
    for kind in apply rollback rewrite second; do
        pass "resets ($kind) by phase: $(awk -F '\t' -v kind=$kind '$1 == kind { n[$2]++; all++ }
            END { printf "%d", all; for (phase in n) printf ", %s %d", phase, n[phase] }' /disk/log)"
    done
    pass "$(awk -F '\t' '$3 > 0 && $4 > 0' /disk/log | wc -l) of $(wc -l </disk/log) resets left some files replaced and others not, $(awk -F '\t' '$5 > 0' /disk/log | wc -l) came between two names of a file"
}

step=$1
SEED=$2
NODES=$3
RESETS=$4
"step_$step"
