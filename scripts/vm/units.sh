# shellcheck shell=bash
# The guest's part of the part `units`: scripts/test-kernel.sh runs this script in the guest. systemd takes the place of the guest's init, and a
# PostgreSQL is one of its units. `poolwright apply --unit`, also with `--new-pool`, and `undo --unit` stop and start it. Each result is a line
# that starts with "pass" or "fail".
#
# usage: units.sh boot SEED     prepares the guest; init then makes systemd the process 1
#        units.sh steps SEED    the steps, as a unit of systemd; then the guest ends
set -u
umask 022

# The programs of util-linux before those of busybox.
export PATH=/disk/util:/bin:/sbin:/usr/bin:/usr/sbin:/disk/bin LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/disk/state HOME=/root LC_ALL=C
POOL=tank
NEW_POOL=fast
DATASET=$POOL/db
MOUNT=/srv/db
UNIT=postgres.service
UNITS=/usr/lib/systemd/system
# While this file exists, the unit does not finish to stop.
HOLD=/tmp/hold
# How long anything may take that is waited for, in seconds.
LIMIT=300

# shellcheck source=scripts/vm/guest.sh
. /guest.sh
# shellcheck source=scripts/vm/database.sh
. /disk/database.sh

# Before systemd

# unit NAME: writes a unit from standard input.
unit() { cat >"$UNITS/$1"; }

write_units() {
    unit steps.service <<EOF
[Unit]
Description=The steps of the test
FailureAction=reboot-immediate
[Service]
ExecStart=/bin/bash /run.script steps $1
StandardInput=null
StandardOutput=file:/dev/ttyS0
StandardError=inherit
EOF
    # Started again whatever ends it, and without a limit.
    unit $UNIT <<EOF
[Unit]
Description=PostgreSQL
RequiresMountsFor=$MOUNT
StartLimitIntervalSec=0
[Service]
Type=notify
User=database
Environment=LD_LIBRARY_PATH=/disk/lib TZ=GMT
ExecStart=$(echo /disk/usr/lib/postgresql/*/bin)/postgres -D $MOUNT -k /tmp -h ""
ExecStopPost=/bin/sh -c "while [ -e $HOLD ]; do sleep 0.1; done"
KillMode=mixed
KillSignal=SIGINT
TimeoutSec=$LIMIT
Restart=always
RestartSec=100ms
EOF
    unit client.service <<EOF
[Unit]
Description=Needs the database
Requires=$UNIT
After=$UNIT
[Service]
Type=oneshot
ExecStart=/bin/true
EOF
    unit wake.socket <<EOF
[Unit]
Description=Starts the database
[Socket]
ListenFIFO=/run/wake
FlushPending=yes
Service=$UNIT
EOF
}

step_boot() {
    SYSTEM=postgres
    database_system
    mkdir -p /usr/lib
    # The packages of Debian 12 have files below /lib, which is no link here.
    tar -xf /disk/systemd.tar -C /
    [ -d /lib/systemd/system ] || { mkdir -p /lib/systemd; cp -a /usr/lib/systemd/. /lib/systemd/; }
    mkdir -p $UNITS
    echo 0123456789abcdef0123456789abcdef >/etc/machine-id
    write_units "$1"
    # The shell of the guardian and of units.
    ln -sf /bin/bash /usr/bin/bash
    printf '%s\n' '#!/bin/sh' \
        'exec /lib/systemd/systemd --unit=steps.service --show-status=no --log-target=journal --crash-reboot=yes --default-standard-output=null' >/next-init
    chmod 755 /next-init
}

# Under systemd

PLAN=/disk/plan.json
apply=(poolwright apply "$PLAN" --yes --unit "$UNIT")
undo=(poolwright undo "$PLAN" --yes --unit "$UNIT")
move=(poolwright apply "$PLAN" --new-pool "$NEW_POOL" --yes --unit "$UNIT")

properties() { zfs get -Hp -r -t filesystem -o name,property,value,source recordsize,compression,atime,mountpoint,logbias $POOL; }

# block_sizes BYTES: the number of the database's files of more than one block that have another block size.
block_sizes() { find "$MOUNT" -xdev -type f -exec stat -c '%o %s' {} + | awk -v size="$1" '$2 > size && $1 != size' | wc -l; }

# unit_state: of the database's unit.
unit_state() { systemctl show -p ActiveState -p LoadState $UNIT | sort | cut -d= -f2 | tr '\n' ' '; }

# await TEXT COMMAND...: waits until a command succeeds.
await() {
    local text=$1 end=$((SECONDS + LIMIT))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ]; then
            fail "$text: not within $LIMIT s; the unit is $(unit_state)"
            return 1
        fi
        pause 0.2
    done
    pass "$text"
}

is_up() { [ "$(unit_state)" = "active loaded " ] && sql "SELECT 1"; }
is_in() { [ "$(unit_state)" = "$1 " ]; }

# begin COMMAND...: runs a command in the background. `until_line` reads what it prints, which is in /tmp/printed.
begin() {
    rm -f /tmp/lines
    mkfifo /tmp/lines
    : >/tmp/printed
    "$@" >/tmp/lines 2>&1 &
    RUN=$!
    exec 8</tmp/lines
}

# next_line: reads a line into LINE.
next_line() { IFS= read -rt $LIMIT -u 8 LINE && printf '%s\n' "$LINE" >>/tmp/printed; }

# until_line TEXT: returns when the command has printed this.
until_line() {
    while next_line; do
        [[ $LINE != *"$1"* ]] || return 0
    done
    fail "the run ended without '$1': $(tail -n 5 /tmp/printed | tr '\n' ' ')"
    return 1
}

# stopped_at TEXT: stops the process of the command when it has printed this.
stopped_at() { until_line "$1" && kill -STOP "$RUN"; }

# killed TEXT: kills the command.
killed() {
    kill -KILL "$RUN"
    wait "$RUN" 2>/dev/null
    exec 8<&-
    pass "$1: killed after: $(tail -n 1 /tmp/printed)"
}

# finish: lets the command end. STATUS is its status.
finish() {
    STATUS=0
    kill -CONT "$RUN" 2>/dev/null
    cat <&8 >>/tmp/printed
    exec 8<&-
    wait "$RUN" || STATUS=$?
}

# ended STATUS TEXT [MESSAGE]: the command must end with this status, and have printed this.
ended() {
    finish
    if [ $STATUS -eq "$1" ] && grep -q -- "${3:-}" /tmp/printed; then
        pass "$2"
    else
        fail "$2: status $STATUS instead of $1: $(tail -n 8 /tmp/printed | tr '\n' ' ')"
    fi
}

# given_up_because TEXT STATUS: a run that found that the database was started must have replaced no file.
given_up_because() {
    if [ "$2" -ne 0 ] && grep -q 'everything is as before' /tmp/printed; then
        pass "$1: $(grep -B 1 'everything is as before' /tmp/printed | head -n 1)"
    else
        fail "$1: status $2: $(tail -n 5 /tmp/printed | tr '\n' ' ')"
    fi
}

# cannot_start TEXT: every attempt to start the database while it is stopped must fail.
cannot_start() {
    same "$1: the unit is stopped and masked" "$(unit_state)" "inactive masked "
    if systemctl start $UNIT >/tmp/other 2>&1; then fail "$1: systemctl start succeeded"; else pass "$1: systemctl start fails: $(head -n 1 /tmp/other)"; fi
    if systemctl start client.service >/tmp/other 2>&1; then fail "$1: a unit that requires it was started"; else pass "$1: a unit that requires it is not started"; fi
    # systemd starts the unit when something arrives at its socket.
    [ ! -p /run/wake ] || echo wake 1<>/run/wake
    pause 2
    same "$1: the unit is still stopped and masked" "$(unit_state)" "inactive masked "
    if sql "SELECT 1" >/dev/null 2>&1; then fail "$1: the database answers"; else pass "$1: the database does not run"; fi
}

# runs TEXT: the database's unit is as before a run, and every row is there.
runs() {
    same "$1: the unit runs and is not masked" "$(unit_state)" "active loaded "
    same "$1: no mask is left" "$(readlink /run/systemd/system/$UNIT /etc/systemd/system/$UNIT)" ""
    intact "$1"
}

applied() {
    runs "$1"
    same "$1: every file has blocks of 8K" "$(block_sizes 8192)" 0
    same "$1: the log has a dataset of its own" "$(readlink $MOUNT/pg_wal)" $MOUNT-wal
}

as_before() {
    given_up "$1"
    same "$1: every file has blocks of 128K" "$(block_sizes 131072)" 0
}

# given_up TEXT: as before a run that has replaced no file. What the database has created meanwhile may have other block sizes.
given_up() {
    runs "$1"
    same "$1: datasets, properties and sources are as before" "$(properties)" "$BEFORE"
    same "$1: no snapshot is left" "$(zfs list -H -t snapshot | wc -l)" 0
}

# rows TEXT: rows were written since the last time.
rows() {
    local n
    n=$(sql "SELECT count(*) FROM t WHERE id > 1000000")
    if [ "$n" -gt "$SEEN" ]; then pass "$1: $((n - SEEN)) rows were written"; else fail "$1: no row was written"; fi
    SEEN=$n
}

make_database() {
    truncate -s 6G /disk/pool
    expect "the kernel makes a pool" zpool create -f -o ashift=12 -O mountpoint=none -O compression=lz4 -O xattr=sa -O acltype=posix $POOL /disk/pool
    mkdir -p $MOUNT
    zfs create -o mountpoint=$MOUNT $DATASET
    database_files $MOUNT
    sed 's|@RECOMMENDED@|"recordsize":"8K","compression":"zstd-3"|' /disk/postgres.template >$PLAN
    expect "a socket of the unit listens" systemctl start wake.socket
    expect "the unit starts" systemctl start $UNIT || { systemctl status $UNIT; journalctl -n 30; return 1; }
    SEEN=0
    ROWS=$(sql "SELECT count(*) FROM t")
    same "the database has rows" "$([ "$ROWS" -gt 1000 ] && echo yes)" yes
    BEFORE=$(properties)
    : >/tmp/committed
    load &
}

# The unit is stopped, masked and started, and cannot be started in between.
test_run() {
    begin "${apply[@]}"
    stopped_at "copying what has changed" && cannot_start "while apply has stopped it"
    ended 0 "apply --unit" "was stopped for"
    applied "applied"
    same "the socket listens as before" "$(systemctl show -p ActiveState -p Result wake.socket | sort | tr '\n' ' ')" "ActiveState=active Result=success "
    systemctl stop wake.socket
    systemctl reset-failed
    rows "between apply and undo"
    begin "${undo[@]}"
    stopped_at "copying what has changed" && cannot_start "while undo has stopped it"
    ended 0 "undo --unit" "was stopped for"
    as_before "undone"
}

# killed_at TEXT COMMAND...: kills a command after it has printed this. The unit must run again.
killed_at() {
    local text=$1
    shift
    begin "$@"
    until_line "$text" || return
    killed "$2"
    await "$2 was killed at '$text': the unit runs again" is_up && runs "$2 was killed at '$text'"
}

test_kills() {
    : >$HOLD
    begin "${apply[@]}"
    until_line "+ systemctl stop" && await "the unit is being stopped" is_in "deactivating loaded"
    killed apply
    pause 2
    same "the unit is not started before it has stopped" "$(unit_state)" "deactivating loaded "
    rm $HOLD
    await "killed while the unit was being stopped: it runs again" is_up
    runs "killed while the unit was being stopped"
    killed_at "copying what has changed" "${apply[@]}"
    killed_at "replacing files" "${apply[@]}"
    killed_at "starting the database" "${apply[@]}"
    expect "apply continues after it was killed" "${apply[@]}"
    applied "applied after it was killed"
    killed_at "copying what has changed" "${undo[@]}"
    killed_at "+ systemctl start" "${undo[@]}"
    expect "undo continues after it was killed" "${undo[@]}"
    as_before "undone after it was killed"
}

# The control group of the run has its guardian too: nothing is left that could start the unit before the next run.
test_control_group() {
    rm -f /tmp/lines
    mkfifo /tmp/lines
    : >/tmp/printed
    exec 8<>/tmp/lines
    systemd-run --quiet --unit=run --setenv=PATH="$PATH" --setenv=LD_LIBRARY_PATH=$LD_LIBRARY_PATH \
        --setenv=POOLWRIGHT_STATE_DIR=$POOLWRIGHT_STATE_DIR --property=StandardOutput=file:/tmp/lines "${apply[@]}"
    until_line "copying what has changed"
    systemctl kill --signal=KILL run.service
    exec 8<&-
    await "its control group is killed" eval '! systemctl is-active -q run.service'
    same "the unit stays stopped and masked" "$(unit_state)" "inactive masked "
    expect "apply continues" "${apply[@]}"
    applied "applied after its control group was killed"
    expect "undo" "${undo[@]}"
    as_before "undone after the control group of apply was killed"
}

# interrupted: interrupts apply after a random line of its progress.
interrupted() {
    local number=$((RANDOM % LINES_OF_APPLY + 1)) after=$((RANDOM % 1000)) n
    begin "${apply[@]}"
    until_line "setting properties"
    for ((n = 1; n < number; n++)); do
        next_line || break
    done
    pause "0.$(printf %03d $after)"
    kill -INT "$RUN" 2>/dev/null
    finish
    case $STATUS in
        0 | 130) pass "INT $after ms after '$LINE': status $STATUS" ;;
        *) fail "INT $after ms after '$LINE': status $STATUS: $(tail -n 5 /tmp/printed | tr '\n' ' ')" ;;
    esac
    runs "after INT"
    expect "undo after INT" "${undo[@]}"
    given_up "undone after INT"
}

test_interruptions() {
    local n
    expect "apply, undisturbed" "${apply[@]}"
    LINES_OF_APPLY=$(sed -n '/setting properties/,/starting the database/p' /tmp/said | wc -l)
    expect "undo" "${undo[@]}"
    for n in 1 2 3 4; do interrupted; done
    begin "${apply[@]}"
    if stopped_at "copying what has changed"; then kill -INT "$RUN"; ended 130 "INT while the unit is stopped"; else ended 0 "apply ends"; fi
    runs "after INT while it is stopped"
    expect "undo after INT while it is stopped" "${undo[@]}"
    given_up "undone after INT while it is stopped"
}

test_writers() {
    exec 7>>$MOUNT/other
    refused "another writer remains after the stop" "the database was stopped, but bash" "${apply[@]}"
    exec 7>&-
    rm $MOUNT/other
    given_up "refused because of another writer"

    # A unit file in /etc comes before the mask in /run.
    mkdir -p /etc/systemd/system
    cp $UNITS/$UNIT /etc/systemd/system/
    systemctl daemon-reload
    begin "${apply[@]}"
    stopped_at "copying what has changed" && expect "a unit in /etc is not masked, and can be started meanwhile" systemctl start $UNIT
    finish
    given_up_because "apply finds that it was started" $STATUS
    same "it has said that it could not mask the unit" "$(grep -c 'could not be masked' /tmp/printed)" 1
    rm /etc/systemd/system/$UNIT
    systemctl daemon-reload
    given_up "refused because the unit was started meanwhile"

    # An administrator who starts it again and again.
    while [ ! -e /tmp/enough.starts ]; do systemctl start --no-block $UNIT; done >/dev/null 2>&1 &
    local starter=$!
    begin "${apply[@]}"
    finish
    : >/tmp/enough.starts
    wait $starter
    if [ $STATUS -eq 0 ]; then
        pass "apply while the unit is started again and again: applied"
        applied "in spite of starts"
        expect "undo in spite of starts" "${undo[@]}"
    else
        given_up_because "apply while the unit is started again and again" $STATUS
    fi
    given_up "after starts"
}

# A unit that was stopped by the administrator: the datasets are rolled back, and nothing can be written meanwhile.
test_rollback() {
    expect "apply, to be rolled back" "${apply[@]}"
    expect "the unit stops" systemctl stop $UNIT
    expect "undo" "${undo[@]}"
    same "rows were written after apply: it was not rolled back" "$(grep -c 'rolled back' /tmp/said)" 0
    same "a unit that was stopped is not started" "$(unit_state)" "inactive loaded "
    expect "the unit starts" systemctl start $UNIT
    as_before "undone while the unit was stopped"

    expect "the unit stops" systemctl stop $UNIT
    begin "${apply[@]}"
    if stopped_at "copying what has changed" && systemctl start $UNIT >/tmp/other 2>&1; then
        finish
        given_up_because "a unit that was stopped is started meanwhile, and apply finds that" $STATUS
        given_up "after the unit was started meanwhile"
        expect "the unit stops" systemctl stop $UNIT
    else
        ended 0 "a unit that was stopped cannot be started meanwhile: $(head -n 1 /tmp/other)"
        expect "undo" "${undo[@]}"
    fi
    expect "apply while the unit is stopped" "${apply[@]}"
    same "a unit that was stopped is not started" "$(unit_state)" "inactive loaded "
    begin "${undo[@]}"
    if stopped_at "comparing files"; then
        same "both file systems are read-only" "$(awk -v m=$MOUNT '$2 == m || $2 == m "-wal" { print substr($4, 1, 2) }' /proc/mounts | tr '\n' ' ')" "ro ro "
        if (echo row >$MOUNT/other) 2>/tmp/other; then fail "a file was written"; else pass "nothing can be written: $(head -n 1 /tmp/other)"; fi
        if (echo row >$MOUNT-wal/other) 2>/dev/null; then fail "a file of the log was written"; else pass "nor in the dataset of the log"; fi
        if systemctl start $UNIT >/tmp/other 2>&1; then fail "the database was started"; else pass "the database cannot start"; fi
    fi
    killed undo
    await "the file systems can be written after a kill" eval "echo row >$MOUNT/other && echo row >$MOUNT-wal/other"
    await "systemd starts the database, as it was told" is_up
    intact "after a kill of undo"
    rm $MOUNT/other $MOUNT-wal/other
    expect "undo" "${undo[@]}"
    as_before "undone after it was killed in the comparison"

    expect "the unit stops" systemctl stop $UNIT
    expect "apply while the unit is stopped" "${apply[@]}"
    begin "${undo[@]}"
    if stopped_at "comparing files"; then
        if systemctl start $UNIT >/tmp/other 2>&1; then fail "the database was started"; else pass "the database cannot start; systemd goes on to try"; fi
    fi
    ended 0 "undo goes on" "rolled back"
    await "the database starts after the rollback" is_up
    as_before "rolled back"
    rows "after the rollback"
}

# place: the dataset on the database's directory.
place() { awk -v m=$MOUNT '$2 == m { print $1 }' /proc/mounts; }

# A move to another pool and back: of a unit that runs, and of one that the administrator has stopped, also killed.
test_new_pool() {
    truncate -s 6G /disk/other
    expect "the kernel makes another pool" zpool create -f -o ashift=12 -O mountpoint=none -O xattr=sa -O acltype=posix $NEW_POOL /disk/other
    # The kernel mounts a snapshot below .zfs with `/usr/bin/env mount`.
    [ -e /usr/bin/env ] || ln -s /bin/busybox /usr/bin/env
    systemctl stop $UNIT
    expect "the socket of the unit listens" systemctl start wake.socket
    expect "the unit starts" systemctl start $UNIT
    begin "${move[@]}"
    stopped_at "copying what has changed" && cannot_start "while apply --new-pool has stopped it"
    ended 0 "apply --new-pool --unit"
    runs "moved"
    same "moved: its dataset" "$(place)" $NEW_POOL/db
    same "the socket listens as before" "$(systemctl show -p ActiveState -p Result wake.socket | sort | tr '\n' ' ')" "ActiveState=active Result=success "
    systemctl stop wake.socket
    systemctl reset-failed
    rows "on the new pool"
    begin "${undo[@]}"
    stopped_at "copying what has changed" && cannot_start "while undo of a move has stopped it"
    ended 0 "undo --unit of a move"
    same "moved back: its dataset" "$(place)" $DATASET
    given_up "moved back"

    expect "the unit stops" systemctl stop $UNIT
    begin "${move[@]}"
    stopped_at "copying what has changed" && cannot_start "while apply --new-pool moves a stopped one"
    ended 0 "apply --new-pool of a stopped unit"
    same "a unit that was stopped is not started" "$(unit_state) $(place)" "inactive loaded  $NEW_POOL/db"
    systemctl reset-failed
    begin "${undo[@]}"
    until_line "mounting the datasets in their new places" && killed "undo of a move"
    pause 2
    cannot_start "after undo was killed while it mounted the datasets"
    expect "undo continues" "${undo[@]}"
    same "it is not masked any more" "$(unit_state) $(place)" "inactive loaded  $DATASET"
    systemctl reset-failed
    expect "the unit starts" systemctl start $UNIT
    given_up "moved back after a kill"
    expect "the other pool can be exported" zpool export $NEW_POOL
}

step_steps() {
    SYSTEM=postgres
    local began=$SECONDS test
    same "systemd is process 1" "$(cat /proc/1/comm)" systemd
    RANDOM=$1
    make_database || return
    for test in run kills control_group interruptions writers rollback new_pool; do
        began=$SECONDS
        "test_$test"
        pass "the tests '$test' took $((SECONDS - began)) s"
    done
    touch /tmp/enough
    wait
    expect "the unit stops" systemctl stop $UNIT
    expect "pg_checksums" as_database "pg_checksums --check -D $MOUNT"
    expect "a scrub" zpool scrub -w $POOL
    same "the pool has no errors" "$(zpool status -x $POOL)" "pool '$POOL' is healthy"
    expect "the pool can be exported" zpool export $POOL
}

step=$1
shift
"step_$step" "$@"
if [ "$step" = steps ]; then
    # As init does.
    sync
    echo "status 0" >/dev/ttyS1
    sleep 0.2
    poweroff -f
fi
