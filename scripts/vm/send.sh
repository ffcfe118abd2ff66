# shellcheck shell=bash
# The guest's part of the part `send`: scripts/test-kernel.sh runs this script in the guest. It sends backups of a directory to another pool:
# whole, incremental, from a bookmark, interrupted and continued, encrypted, through a remote shell; a WAL archive; and what must be refused.
# Each result is a line that starts with "pass" or "fail".
#
# usage: send.sh send
set -u
umask 022

export PATH=/disk/bin:$PATH LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/disk/state HOME=/root
POOL=tank
FROM=$POOL/backup
MOUNT=/srv/backup
DATA=/srv/data
OTHER=vault
# A rate at which a full stream takes some minutes.
SLOW=30K
# A remote shell for this host.
SHELL_HERE=/tmp/shell

# shellcheck source=scripts/vm/guest.sh
. /guest.sh

# said TEXT NUMBER PATTERN: this number of lines of the last output match the pattern.
said() {
    local found
    found=$(grep -c -- "$3" /tmp/said)
    if [ "$found" = "$2" ]; then pass "$1"; else fail "$1: $found lines with '$3': $(tr '\n' ' ' </tmp/said)"; fi
}

send() { poolwright backup send "$@"; }

# guids DATASET: the GUIDs of its snapshots, oldest first.
guids() { zfs list -H -d 1 -t snapshot -o guid -s createtxg "$1" 2>/dev/null | tr '\n' ' '; }

# names DATASET: the names of its snapshots, oldest first.
names() { zfs list -H -d 1 -t snapshot -o name -s createtxg "$1" 2>/dev/null | cut -d @ -f 2; }

# value PROPERTY DATASET: the value of a property, `-` if it has none.
value() { zfs get -Hp -o value "$1" "$2" 2>/dev/null; }

# everything: all datasets, snapshots and bookmarks.
everything() { zfs list -H -t all -o name,guid; }

make_system() {
    # The kernel mounts a snapshot below .zfs with `/usr/bin/env mount`.
    mkdir -p /usr/bin
    ln -sf /bin/busybox /usr/bin/env
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >$SHELL_HERE
    chmod 755 $SHELL_HERE
    truncate -s 2G /disk/pool /disk/other
    expect "the kernel makes a pool" zpool create -f -o ashift=12 -O mountpoint=none -O atime=off $POOL /disk/pool
    expect "the kernel makes another pool" zpool create -f -o ashift=12 -O mountpoint=/vault $OTHER /disk/other
    zfs create -o mountpoint=$DATA $POOL/data
    mkdir $DATA/db
    head -c 6291456 /dev/urandom >$DATA/db/table
    printf 'small' >$DATA/db/small
}

# back_up DATASET [ARGUMENT...]: changes the data, and makes a backup into this dataset.
back_up() {
    local to=$1
    shift
    head -c 204800 /dev/urandom >>$DATA/db/log
    expect "a backup into $to" poolwright backup run $DATA/db --to "$to" --database none "$@"
}

# digest ROOT: the names, attributes and contents in a backup, or in a dataset.
digest() {
    # The root directory of a mounted snapshot has a number of its mount.
    tree list "backup=$1" | sort | sed 's/^backup:\/\t[0-9]*/backup:\/\t-/' | sha256sum
}

# whole_and_incremental: the first runs, the target that they make, and a run that has nothing to do.
whole_and_incremental() {
    local before name
    before=$(everything)
    expect "a dry run" send $FROM --to $OTHER/replica --dry-run
    said "it shows a full and an incremental stream" 2 "^+ zfs send -L -e -c .* | zfs receive -s -u "
    same "it changes nothing" "$(everything)" "$before"
    refused "a target whose parent does not exist" "dataset above it does not exist" send $FROM --to $OTHER/none/replica
    refused "a target in the dataset of the backups" "is in $FROM" send $FROM --to $FROM/replica
    expect "two backups are sent" send $FROM --to $OTHER/replica
    said "it says so" 1 "^$OTHER/replica has 2 of 2 backups"
    same "the target has the GUIDs of the backups" "$(guids $OTHER/replica)" "$(guids $FROM)"
    same "the target is not mounted, and has its properties" \
        "$(zfs get -H -o value,source mounted,canmount,readonly $OTHER/replica | tr '\t\n' '= ')" "no=- noauto=local on=local "
    same "the mount point is that of the target's parent" "$(value mountpoint $OTHER/replica)" /vault/replica
    same "one bookmark is left" "$(zfs list -H -t bookmark -o name -r $FROM | grep -c "^$FROM#poolwright-sent-")" 1
    expect "another run" send $FROM --to $OTHER/replica
    said "it has nothing to send" 0 "^sent"
    zfs mount $OTHER/replica
    for name in $(names $FROM); do
        same "$name has the same names, attributes and contents" "$(digest "/vault/replica/.zfs/snapshot/$name")" "$(digest "$MOUNT/.zfs/snapshot/$name")"
    done
    same "files have the records of the source" "$(stat -c %o /vault/replica/files/0/table)" "$(stat -c %o $MOUNT/files/0/table)"
    expect "a mounted target can be listed" poolwright backup list $OTHER/replica
    zfs unmount $OTHER/replica
}

# from_a_bookmark: the newest backup that the target has is removed from the source before the next run.
from_a_bookmark() {
    local newest
    newest=$(names $OTHER/replica | tail -n 1)
    back_up $FROM
    expect "prune" poolwright backup prune $FROM --keep 1 --unverified
    same "one backup is left" "$(names $FROM | wc -l)" 1
    expect "the next one is sent" send $FROM --to $OTHER/replica
    said "from the bookmark" 1 "^sent .* changes since $FROM#poolwright-sent-[0-9a-f]*-$newest$"
    same "the target has all three" "$(names $OTHER/replica | wc -l)" 3
    same "the bookmark is that of the newest" "$(zfs list -H -t bookmark -o guid -r $FROM)" "$(zfs list -H -t snapshot -o guid $FROM)"
}

# begin_slowly FROM TARGET [ARGUMENT...]: begins to send, and returns when data arrives. PID is the program.
begin_slowly() {
    local from=$1 target=$2 waited=0
    shift 2
    # Not by a function, whose process would be that of the shell.
    poolwright backup send "$from" --to "$target" --rate $SLOW "$@" >/tmp/slow 2>&1 &
    PID=$!
    # An earlier run may have left a token.
    until grep -q '^sending$' /tmp/slow && value receive_resume_token "${target#*:}" | grep -q '^[0-9]'; do
        pause 1
        waited=$((waited + 1))
        if [ $waited -ge 120 ] || ! kill -0 "$PID" 2>/dev/null; then
            fail "$target: nothing arrives: $(tr '\n' ' ' </tmp/slow)"
            return 1
        fi
    done
    # The status of `read` is that of its time limit.
    pause 3 || true
}

# transfers: the number of programs that send or receive.
# shellcheck disable=SC2009
transfers() { ps | grep -c '[z]fs \(send\|receive\)'; }

# ended TEXT SIGNAL STATUS: sends a signal to the program, and waits for its end and that of both ends of the stream.
ended() {
    local status=0 waited=0
    kill "-$2" "$PID"
    wait "$PID" 2>/dev/null || status=$?
    same "$1: status" $status "$3"
    while [ "$(transfers)" != 0 ] && [ $waited -lt 120 ]; do
        pause 1
        waited=$((waited + 1))
    done
    same "$1: both ends have ended (after $waited s)" "$(transfers)" 0
}

# continued: transfers that are interrupted, and continued through a remote shell.
continued() {
    local there=host:$OTHER/killed
    begin_slowly $FROM "$there" --ssh $SHELL_HERE || return
    refused "backups cannot be removed meanwhile" "is being read" poolwright backup prune $FROM --keep 1 --unverified
    ended "killed" KILL 137
    begin_slowly $FROM "$there" --ssh $SHELL_HERE || return
    ended "Ctrl-C" INT 130
    same "it says how to go on" "$(grep -c '^hint: send again' /tmp/slow)" 1
    expect "a dry run" send $FROM --to "$there" --ssh $SHELL_HERE --dry-run
    said "it would continue" 1 "^would send .*, continued$"
    said "through the remote shell" 1 "| $SHELL_HERE host 'zfs receive -s -u $OTHER/killed'$"
    expect "it is continued" send $FROM --to "$there" --ssh $SHELL_HERE
    same "the target has the GUIDs of the backups" "$(guids $OTHER/killed)" "$(guids $FROM)"
    same "the target has its properties" "$(zfs get -H -o value canmount,readonly $OTHER/killed | tr '\n' ' ')" "noauto on "
}

# token_without_snapshot: the snapshot of an interrupted transfer is removed.
token_without_snapshot() {
    begin_slowly $FROM $OTHER/gone || return
    ended "killed" KILL 137
    back_up $FROM
    zfs destroy "$FROM@$(names $FROM | head -n 1)"
    refused "a transfer whose snapshot was removed" "cannot be continued" send $FROM --to $OTHER/gone
    said "it says what to do" 1 "^hint: .zfs receive -A $OTHER/gone. "
    same "it is not discarded" "$(value receive_resume_token $OTHER/gone | grep -c '^[0-9]')" 1
    zfs receive -A $OTHER/gone
    expect "afterwards, everything is sent" send $FROM --to $OTHER/gone
    same "the target has the GUIDs of the backups" "$(guids $OTHER/gone)" "$(guids $FROM)"
}

# changed_targets: targets that must not be changed.
changed_targets() {
    local before
    zfs create -o mountpoint=none $OTHER/empty
    zfs create -o mountpoint=none $OTHER/foreign
    zfs snapshot $OTHER/foreign@own
    zfs snapshot $OTHER/replica@own
    before=$(guids $OTHER/foreign)
    refused "a dataset without snapshots" "exists and has no snapshot" send $FROM --to $OTHER/empty
    refused "a dataset with other snapshots" "has none of them" send $FROM --to $OTHER/foreign
    same "its snapshots stay" "$(guids $OTHER/foreign)" "$before"
    expect "a target with a snapshot of its own that is unchanged" send $FROM --to $OTHER/replica
    back_up $FROM
    zfs set readonly=off $OTHER/replica
    zfs mount $OTHER/replica
    echo changed >/vault/replica/changed
    zfs unmount $OTHER/replica
    zpool sync
    refused "a target that was changed" "has changed since @" send $FROM --to $OTHER/replica
    same "the change stays" "$(zfs mount $OTHER/replica && cat /vault/replica/changed)" changed
    zfs unmount $OTHER/replica
}

# encrypted: raw streams of an encrypted dataset, and targets that take none.
encrypted() {
    local from=$POOL/secret first
    echo password >/tmp/key
    zfs create -o encryption=on -o keyformat=passphrase -o keylocation=file:///tmp/key -o mountpoint=/srv/secret $from
    zfs create -o encryption=on -o keyformat=passphrase -o keylocation=file:///tmp/key $OTHER/encrypted
    back_up $from
    first=$(names $from)
    expect "an encrypted backup is sent" send $from --to $OTHER/secret
    zfs send "$from@$first" | zfs receive -u $OTHER/plain
    zfs send "$from@$first" | zfs receive -u $OTHER/encrypted/other
    back_up $from
    expect "and the next one" send $from --to $OTHER/secret
    said "it says that it is encrypted" 1 "^target .*encrypted (raw)$"
    same "the target has the GUIDs of the backups" "$(guids $OTHER/secret)" "$(guids $from)"
    same "the target is encrypted, and has no key" "$(zfs get -H -o value encryption,keystatus $OTHER/secret | tr '\n' ' ')" "$(value encryption $from) unavailable "
    refused "a target that is not encrypted" "is not encrypted" send $from --to $OTHER/plain
    refused "a target that was not received raw" "was not received as an encrypted" send $from --to $OTHER/encrypted/other
    expect "backups that are not encrypted, into an encrypted dataset" send $FROM --to $OTHER/encrypted/replica
    same "the target has the GUIDs of the backups" "$(guids $OTHER/encrypted/replica)" "$(guids $FROM)"
}

# segment NUMBER: writes a segment of a log.
segment() { head -c 1048576 /dev/urandom >"/srv/log/00000001000000000000000$1"; }

# wal_archive: a WAL archive, whose snapshots do not stay; interrupted, and sent to two targets.
wal_archive() {
    local from=$POOL/log before
    zfs create -o mountpoint=/srv/log $from
    printf '{"version":1,"system_identifier":"7","segment_size":1048576,"backups":"b","dataset":"%s"}' $FROM >/srv/log/poolwright-wal.json
    segment 1
    before=$(everything)
    expect "a dry run of a WAL archive" send $from --to $OTHER/log --dry-run
    same "it changes nothing" "$(everything)" "$before"
    expect "a WAL archive is sent" send $from --to $OTHER/log
    said "it names the last segment" 1 "^the last segment on $OTHER/log is 000000010000000000000001$"
    same "no snapshot stays" "$(names $from)" ""
    same "a bookmark stays" "$(zfs list -H -t bookmark -o guid -r $from) " "$(guids $OTHER/log)"
    segment 2
    rm /srv/log/000000010000000000000001
    begin_slowly $from $OTHER/log || return
    refused "two transfers to a target at once" "another run sends" send $from --to $OTHER/log
    segment 3
    expect "another target has snapshots of its own" send $from --to host:$OTHER/other-log --ssh $SHELL_HERE
    ended "killed" KILL 137
    same "that of the interrupted transfer stays" "$(names $from | wc -l)" 1
    expect "it is continued" send $from --to $OTHER/log
    said "from where it ended" 1 "^sent .*, continued$"
    said "then what has changed" 1 "^sent .*, changes since "
    said "it names the last segment" 1 "^the last segment on $OTHER/log is 000000010000000000000003$"
    same "no snapshot stays" "$(names $from)" ""
    same "the targets have one each" "$(names $OTHER/log | wc -l) $(names $OTHER/other-log | wc -l)" "1 1"
    zfs mount $OTHER/log
    same "the target has the segments" "$(cd /vault/log && sha256sum 0*)" "$(cd /srv/log && sha256sum 0*)"
    zfs unmount $OTHER/log
    wal_failures $from
}

# wal_failures FROM: first transfers that fail at their start or are interrupted, a target with another name, and snapshots that cannot be
# destroyed.
wal_failures() {
    local from=$1 n
    zfs unmount $OTHER/encrypted
    zfs unload-key $OTHER/encrypted
    for n in 1 2; do
        refused_to_receive "transfer $n to a target without its key" send "$from" --to $OTHER/encrypted/log
        same "one snapshot stays at most" "$(names "$from" | wc -l)" 1
    done
    zfs load-key $OTHER/encrypted
    expect "with its key" send "$from" --to $OTHER/encrypted/log
    same "no snapshot stays" "$(names "$from")" ""
    begin_slowly "$from" $OTHER/first || return
    ended "killed in its first stream" KILL 137
    zfs rename $OTHER/first $OTHER/renamed
    expect "it is continued under another name" send "$from" --to $OTHER/renamed
    expect "and sent again" send "$from" --to $OTHER/renamed
    same "no snapshot stays" "$(names "$from")" ""
    same "the target has one" "$(names $OTHER/renamed | wc -l)" 1
    zfs hold user "$OTHER/renamed@$(names $OTHER/renamed)"
    for n in 1 2; do expect "transfer $n to a target with a snapshot that is held" send "$from" --to $OTHER/renamed; done
    said "it says so" 1 "1 snapshot of $OTHER/renamed could not be destroyed"
    same "the held one and the newest one stay" "$(names $OTHER/renamed | wc -l)" 2
}

# refused_to_receive TEXT COMMAND...: the command fails because the target does not receive.
refused_to_receive() {
    local text=$1 status=0
    shift
    "$@" >/tmp/said 2>&1 || status=$?
    same "$text: status" $status 1
}

step_send() {
    local pool
    make_system
    back_up $FROM --mountpoint $MOUNT || return
    back_up $FROM
    whole_and_incremental
    from_a_bookmark
    continued
    token_without_snapshot
    changed_targets
    encrypted
    wal_archive
    for pool in $POOL $OTHER; do
        expect "a scrub" zpool scrub -w "$pool"
        same "the pool has no errors" "$(zpool status -x "$pool")" "pool '$pool' is healthy"
        expect "the pool can be exported" zpool export "$pool"
    done
}

step=$1
shift
"step_$step" "$@"
