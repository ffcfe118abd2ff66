# shellcheck shell=bash
# The guest's part of the part `newpool`: scripts/test-kernel.sh runs this script in the guest. It moves a tree to another pool and back
# (`poolwright apply --new-pool`, `undo`), kills both at random times, and checks what must be refused. Each result is a line that starts
# with "pass" or "fail".
#
# usage: new_pool.sh new_pool SEED NODES
set -u
umask 022

export PATH=$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/disk/state HOME=/root
KILLS=8

# shellcheck source=scripts/vm/guest.sh
. /guest.sh

# shellcheck source=scripts/vm/moved_tree.sh
. /disk/moved_tree.sh

check_refusals() {
    refused "a DATASET in the same pool" "is in the pool tank already" poolwright apply /disk/plan.json --new-pool tank --yes
    zfs create -o mountpoint=/srv/elsewhere tank/db/other
    refused "a dataset below that is not the database's" "tank/db/other is below tank/db" move
    zfs destroy tank/db/other
    zfs create -o mountpoint=legacy tank/old
    mkdir -p /srv/old
    mount -t zfs tank/old /srv/old
    sed "s|$MOUNT|/srv/old|g; s|tank/db|tank/old|g" /disk/plan.json >/disk/old.json
    refused "a dataset that /etc/fstab mounts" "its property mountpoint is legacy" poolwright apply /disk/old.json --new-pool fast --yes
    umount /srv/old
    zfs destroy tank/old
    (
        cd $MOUNT || exit 1
        refused "a dataset that is a working directory" "a program uses it" move
    )
    same "it is mounted again" "$(places)" "tank/db tank/db/log "
    expect "what it has left is removed" undo
    on_tank "after the refusals"
}

check_encryption() {
    printf 'password' >/tmp/key
    zfs create -o encryption=on -o keyformat=passphrase -o keylocation=file:///tmp/key -o mountpoint=/srv/secret tank/secret
    sed "s|$MOUNT|/srv/secret|g; s|tank/db|tank/secret|g" /disk/plan.json >/disk/secret.json
    refused "an encrypted dataset into one that is not" "is encrypted, and fast is not" poolwright apply /disk/secret.json --new-pool fast --yes
    zfs create -o encryption=on -o keyformat=passphrase -o keylocation=file:///tmp/key fast/vault
    echo row >/srv/secret/table
    expect "into an encrypted one" poolwright apply /disk/secret.json --new-pool fast/vault --yes
    same "it is encrypted there" "$(zfs get -H -o value encryptionroot fast/vault/secret) $(cat /srv/secret/table)" "fast/vault row"
    expect "and back" poolwright undo /disk/secret.json --yes
    zfs destroy -r tank/secret
    zfs destroy -r fast/vault
}

# check_own_mountpoint: an inner dataset that does not inherit its mount point, and a dataset that was made after the move.
check_own_mountpoint() {
    local before
    zfs set mountpoint=$MOUNT/log tank/db/log
    before=$(properties)
    manifest "$KEPT/before"
    expect "with a mount point of its own, the log moves" move
    unchanged "on the new pool, with a mount point of its own"
    echo later >$MOUNT/later2
    zfs create fast/db/later
    refused "a dataset that was made after the move" "fast/db/later is in the database's datasets" undo
    same "the database is on the new pool" "$(places)" "fast/db fast/db/log "
    zfs destroy fast/db/later
    rmdir $MOUNT/later 2>/dev/null
    manifest "$KEPT/before"
    expect "undo, with a mount point of its own" undo
    unchanged "after undo, with a mount point of its own"
    same "properties and sources are as before, with a mount point of its own" "$(properties)" "$before"
    expect "move for another plan" move
    truncate -s 3G /disk/third
    zpool create -f -o ashift=12 -O mountpoint=none third /disk/third || fail "zpool create third"
    sed "s|tank/db|fast/db|g; s|\"created\": *\"[^\"]*\"|\"created\":\"2026-01-02T03:04:05Z\"|" /disk/plan.json >/disk/next.json
    expect "a second plan moves it on" poolwright apply /disk/next.json --new-pool third --yes
    refused "undo of the first plan meanwhile" "third/db is mounted on" undo
    same "the database is where the second plan has put it" "$(places)" "third/db third/db/log "
    expect "undo of the second plan" poolwright undo /disk/next.json --yes
    expect "undo of the first plan" undo
    unchanged "after both"
    same "properties and sources are as before, after both" "$(properties)" "$before"
    zpool destroy third
    zfs inherit mountpoint tank/db/log
    zfs mount tank/db/log 2>/dev/null
    manifest "$KEPT/before"
    BEFORE=$(properties)
}

# kill_at MILLISECONDS COMMAND...: kills a run after this time.
kill_at() {
    local after=$1 pid
    shift
    setsid "$@" >/tmp/killed 2>&1 &
    pid=$!
    pause "$((after / 1000)).$(printf %03d $((after % 1000)))"
    kill -9 -- -$pid 2>/dev/null
    wait $pid 2>/dev/null
}

# check_kills MILLISECONDS: kills runs that take this time, and continues or undoes them.
check_kills() {
    local n after whole=0
    for ((n = 1; n <= KILLS; n++)); do
        after=$((RANDOM * 31 % $1))
        kill_at $after poolwright apply /disk/plan.json --new-pool fast --yes --online
        if [ $((n % 2)) -eq 0 ]; then
            if expect "move, killed after $after ms ($(tail -n 1 /tmp/killed)), goes on" move && [ "$(places)" = "fast/db fast/db/log " ]; then
                unchanged "on the new pool"
            else
                fail "it is on $(places)"
            fi
            [ $((n % 4)) -ne 0 ] || touch -d '2001-01-01 00:00:00' $MOUNT/log/3
            manifest "$KEPT/before"
            after=$((RANDOM * 31 % $1))
            kill_at $after poolwright undo /disk/plan.json --yes
        fi
        expect "undo, killed or after a kill at $after ms ($(tail -n 1 /tmp/killed))" undo
        on_tank "round $n"
        whole=$((whole + 1))
    done
    pass "$whole rounds"
}

step_new_pool() {
    local start took
    make_pools "$1" "$2"
    expect "a dry run" poolwright apply /disk/plan.json --new-pool fast --dry-run
    on_tank "a dry run"
    check_refusals
    start=${EPOCHREALTIME/./}
    expect "move" move --online
    took=$(((${EPOCHREALTIME/./} - start) / 1000))
    unchanged "on the new pool (after $took ms)"
    same "the new datasets are in their places" "$(places)" "fast/db fast/db/log "
    same "every file has blocks of 16K" "$(block_sizes 16384)" 0
    same "the new dataset has the properties" \
        "$(zfs get -H -o value,source recordsize,compression,logbias,canmount fast/db | tr '\t\n' '= ')" \
        "16K=local zstd-3=local throughput=local on=local "
    zpool export tank fast 2>/tmp/said || fail "export: $(cat /tmp/said)"
    zpool import -d /disk/live -a 2>/tmp/said || fail "import: $(cat /tmp/said)"
    same "after both pools were imported, the new datasets are mounted" "$(places)" "fast/db fast/db/log "
    unchanged "after both pools were imported"
    expect "undo, with nothing written" undo
    same "nothing was copied" "$(grep -c 'so nothing was copied' /tmp/said)" 1
    on_tank "after undo"
    expect "move again" move
    echo later >$MOUNT/later
    echo later >$MOUNT/log/3
    manifest "$KEPT/before"
    expect "undo, with what was written" undo
    same "files were copied" "$(grep -c 'copied and compared' /tmp/said)" 1
    on_tank "after undo of what was written"
    same "every file has blocks of 128K" "$(block_sizes 131072)" 0
    check_encryption
    check_own_mountpoint
    check_kills "$took"
    zpool scrub -w tank
    same "the pool is healthy" "$(zpool status -x tank)" "pool 'tank' is healthy"
}

step=$1
shift
"step_$step" "$@"
