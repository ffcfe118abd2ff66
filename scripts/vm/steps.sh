# shellcheck shell=bash
# The guest's part of the kernel tests: scripts/test-kernel.sh runs this script in the guest with the name of a step. Each result is a line
# that starts with "pass" or "fail"; manifests and pools are files in /disk.

# The kernel applies a umask after it has created a node, and does not log that change.
umask 0

pass() { printf 'pass\t%s\n' "$*"; }
fail() { printf 'fail\t%s\n' "$*"; }

# expect TEXT COMMAND...: runs a command that must succeed.
expect() {
    local text=$1
    shift
    if "$@" >/tmp/said 2>&1; then
        pass "$text"
    else
        fail "$text: '$*' gave $?: $(tr '\n' ' ' </tmp/said)"
        return 1
    fi
}

# refused TEXT MESSAGE COMMAND...: runs a command that must fail with this message.
refused() {
    local text=$1 message=$2
    shift 2
    if "$@" >/tmp/said 2>&1; then
        fail "$text: '$*' succeeded"
    elif grep -q "$message" /tmp/said; then
        pass "$text"
    else
        fail "$text: '$*' gave: $(tr '\n' ' ' </tmp/said)"
    fi
}

datasets() { zfs list -H -r -t filesystem -o name "$1"; }

# Mounts each dataset at a separate mount point, so that no mount point hides or creates a directory of another dataset. Sets PLACES to the
# arguments of `tree list`.
mount_apart() {
    local pool=$1 dataset label place mounted=0 wanted=0
    PLACES=()
    for dataset in $(datasets "$pool"); do
        label=${dataset#"$pool"}
        label=${label#/}
        place=/mnt/apart/$dataset/at
        mkdir -p "$place"
        wanted=$((wanted + 1))
        mount -t zfs -o noatime "$dataset" "$place" && mounted=$((mounted + 1))
        PLACES+=("${label:-.}=$place")
    done
    if [ "$mounted" -eq "$wanted" ] && [ "$wanted" -gt 0 ]; then
        pass "$pool: the kernel mounts $mounted of $wanted datasets"
    else
        fail "$pool: the kernel mounts $mounted of $wanted datasets"
    fi
}

unmount_apart() {
    local place
    for place in "${PLACES[@]}"; do
        umount "${place#*=}"
    done
}

# manifest FILE: writes the manifest of the datasets that mount_apart mounted.
manifest() { expect "the kernel's system calls read the tree (manifest ${1#/disk/})" eval "tree list \"\${PLACES[@]}\" >'$1'"; }

scrub() {
    local pool=$1 state
    expect "$pool: a scrub runs in the kernel" zpool scrub -w "$pool"
    state=$(zpool status -v "$pool")
    if grep -q 'scrub repaired 0B .* with 0 errors' <<<"$state" && grep -q '^errors: No known data errors' <<<"$state"; then
        pass "$pool: $(grep -o 'scrub repaired .* errors' <<<"$state")"
    else
        fail "$pool: scrub is not clean: $state"
    fi
}

# take POOL: imports a pool that the engine made and exported, reads it and scrubs it.
take() {
    expect "$1: the kernel imports it without -f" zpool import -N -d /disk "$1" || return 0
    refused "$1: the engine refuses a pool that the kernel has imported, even with force" \
        "the kernel of this host has imported" engine-tree list "/disk/$1"
    refused "$1: also read-only" "the kernel of this host has imported" engine-tree list "/disk/$1" --read-only
    mount_apart "$1"
    manifest "/disk/$1.read"
    unmount_apart
    scrub "$1"
}

# mount_all POOL: mounts all datasets at their mount points, as a user would.
mount_all() {
    local count
    expect "$1: zfs mount -a" zfs mount -a
    count=$(grep -c " zfs " /proc/mounts)
    if [ "$count" -eq "$(datasets "$1" | wc -l)" ]; then
        pass "$1: $count datasets mounted at their mount points"
    else
        fail "$1: only $count datasets mounted at their mount points"
    fi
    zfs unmount -a
}

# change POOL SEED OPERATIONS: changes each dataset at random and writes the manifest.
change() {
    local place
    mount_apart "$1"
    for place in "${PLACES[@]}"; do
        expect "$1: $3 operations of the kernel in ${place%%=*}" tree change "${place#*=}" "$2" "$3"
    done
    manifest "/disk/$1.changed"
    unmount_apart
}

export_pool() { expect "$1: the kernel exports it" zpool export "$1"; }

# Imports a pool of several files, whose vdevs the engine has changed, and changes them.
step_take_vdevs() {
    local pool=$1 status
    expect "$pool: the kernel imports it without -f" zpool import -N -d /disk "$pool" || return 0
    status=$(zpool status -P "$pool")
    if [ "$(grep -c 'mirror-' <<<"$status")" -eq 2 ] && grep -q "/disk/$pool.l " <<<"$status" && ! grep -q "/disk/$pool " <<<"$status"; then
        pass "$pool: two mirrors and a log, without the replaced file"
    else
        fail "$pool: $status"
    fi
    if grep -Eq "/disk/$pool\.[mxu]" <<<"$status"; then fail "$pool: $status"; else pass "$pool: without the removed files"; fi
    if grep -Eq "/disk/$pool\.s +AVAIL" <<<"$status"; then pass "$pool: the spare is available"; else fail "$pool: $status"; fi
    mount_apart "$pool"
    manifest "/disk/$pool.read"
    unmount_apart
    scrub "$pool"
    expect "$pool: the kernel detaches a file" zpool detach "$pool" "/disk/$pool.b"
    expect "$pool: the kernel detaches another one" zpool detach "$pool" "/disk/$pool.e"
    expect "$pool: the kernel removes the log" zpool remove "$pool" "/disk/$pool.l"
    truncate -s 512M "/disk/$pool.t"
    expect "$pool: the kernel adds a spare" zpool add "$pool" spare "/disk/$pool.t"
    scrub "$pool"
    export_pool "$pool"
}

step_take_and_change() {
    take "$1"
    mount_all "$1"
    change "$1" "$2" "$3"
    export_pool "$1"
}

step_take() {
    local pool
    for pool in "$@"; do
        take "$pool"
        export_pool "$pool"
    done
}

# make_pool POOL SEED NODES KIND...: the kernel makes a pool with datasets of these kinds.
make_pool() {
    local pool=$1 seed=$2 nodes=$3 dataset place flag kind
    shift 3
    # Far more than its contents: the kernel reserves 24 times the dirty data, and cuts the log short if there is no space for that.
    truncate -s 4G "/disk/$pool"
    expect "$pool: zpool create in the kernel" zpool create -f -o ashift=12 -O mountpoint=none "$pool" "/disk/$pool" || return 0
    for kind in "$@"; do
        case $kind in
            xattrdir) zfs create -o xattr=dir -o recordsize=16K "$pool/$kind" ;;
            dnodes) zfs create -o dnodesize=auto -o recordsize=1M -o compression=zstd-3 "$pool/$kind" ;;
            formd) zfs create -o normalization=formD -o recordsize=8K "$pool/$kind" ;;
            posix) zfs create -o acltype=posix -o logbias=throughput -o checksum=sha256 -o copies=2 -o compression=gzip-6 "$pool/$kind" ;;
        esac
    done
    mount_apart "$pool"
    for place in "${PLACES[@]}"; do
        dataset=${place%%=*}
        flag=
        [ "$dataset" != formd ] || flag=--utf8
        # shellcheck disable=SC2086
        expect "$pool: the kernel makes $nodes nodes in $dataset" tree make "${place#*=}" "$seed" "$nodes" $flag
    done
}

step_make() {
    make_pool "$@" xattrdir dnodes formd posix
    manifest "/disk/$1.made"
    unmount_apart
    export_pool "$1"
}

# If the kernel cannot replay a record, it drops the rest of the log and reports that only in its messages.
replayed_whole() {
    local messages
    messages=$(dmesg | grep 'ZFS replay transaction error' | sort -u)
    if [ -z "$messages" ]; then
        pass "the kernel replayed every record"
    else
        fail "the kernel gave up on a log: $messages"
    fi
}

# After a crash: mounting replays the log.
step_replay() {
    local pool
    for pool in "$@"; do
        expect "$pool: the kernel imports it with -f after the crash" zpool import -f -N -d /disk "$pool" || continue
        mount_apart "$pool"
        manifest "/disk/$pool.replayed"
        unmount_apart
        scrub "$pool"
        export_pool "$pool"
    done
    replayed_whole
}

# After a crash: making the device of a volume replays its log. POOL.image is the data.
step_replay_volumes() {
    local pool
    for pool in "$@"; do
        expect "$pool: the kernel imports it with -f after the crash" zpool import -f -N -d /disk "$pool" || continue
        for _ in $(seq 100); do
            [ ! -b /dev/zd0 ] || break
            sleep 0.1
        done
        expect "$pool: the kernel replays what the engine acknowledged" cmp /dev/zd0 "/disk/$pool.image"
        scrub "$pool"
        export_pool "$pool"
    done
    replayed_whole
}

# step_crash POOL SEED NODES OPERATIONS KIND...: the kernel performs durable operations, writes their manifest, and is reset.
step_crash() {
    local pool=$1 seed=$2 nodes=$3 operations=$4 place flag
    shift 4
    make_pool "$pool" "$seed" "$nodes" "$@"
    unmount_apart
    zpool export "$pool"
    # Keep the following operations in the log.
    echo 3600 >/sys/module/zfs/parameters/zfs_txg_timeout
    echo 0 >/sys/module/zfs/parameters/zfs_bclone_wait_dirty
    expect "$pool: the kernel imports it" zpool import -N -d /disk "$pool"
    mount_apart "$pool"
    # The first commit of a dataset waits for a transaction group, which would empty the logs of the other datasets. Do it first.
    for place in "${PLACES[@]}"; do
        tree change "${place#*=}" "$((seed + 500000))" 1 --sync --no-empty --utf8
    done
    for place in "${PLACES[@]}"; do
        flag=
        [ "${place%%=*}" != formd ] || flag=--utf8
        # shellcheck disable=SC2086
        expect "$pool: $operations operations of the kernel in ${place%%=*}, each synced" tree change "${place#*=}" "$((seed + 1))" "$operations" --sync --no-empty $flag
    done
    manifest "/disk/$pool.synced"
    pass "$pool: resetting the guest"
    sync -f "/disk/$pool.synced" || sync
    sleep 1
    echo b >/proc/sysrq-trigger
    sleep 60
}

step=$1
shift
"step_$step" "$@"
