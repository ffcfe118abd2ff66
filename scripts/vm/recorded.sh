# shellcheck shell=bash
# The guest's part of the part `recorded`: scripts/test-kernel.sh runs this script in the guest. It records a program on a dataset, and compares
# the recording with the program's log (crates/record/tests/completeness.rs). It records the requests to volumes, and compares them with the
# kernel's counters (crates/record/tests/block.rs). Each result is a line that starts with "pass" or "fail".
#
# usage: recorded.sh recorded ROOT TMP [REWRITE]
#
#   ROOT, TMP   the sources' directory, and the one for files of tests, as the test was compiled with them
#   REWRITE     not empty: the test writes the column into /disk/recorded-io.md
set -u
umask 022

export PATH=$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib RUST_BACKTRACE=0
POOL=tank
PLACE=/srv/db

# shellcheck source=scripts/vm/guest.sh
. /guest.sh

# volume bios 0, volume requests 1: records a volume, the second one, whose driver takes bios or requests.
volume() {
    local device=/dev/zd16 test
    echo "$2" >/sys/module/zfs/parameters/zvol_use_blk_mq
    expect "a volume" zfs create -V 256M -o volblocksize=16K "$POOL/$1" || return
    for _ in $(seq 50); do [ -b $device ] && break; pause 0.2; done
    same "its driver" "$([ -d "/sys/block/${device##*/}/mq" ] && echo requests || echo bios)" "$1"
    for test in direct_transfers_are_recorded_with_their_whole_length a_file_system_on_the_device_is_recorded_to_the_byte; do
        POOLWRIGHT_TEST_VOLUME=$device expect "zvol_use_blk_mq=$2: $test" block --nocapture "$test"
        if grep SKIPPED /tmp/said; then fail "$(grep SKIPPED /tmp/said)"; fi
    done
    expect "the volume is removed" zfs destroy "$POOL/$1"
    for _ in $(seq 50); do [ -b $device ] || break; pause 0.2; done
}

step_recorded() {
    local root=$1 tmp=$2 rows
    [ -z "${3:-}" ] || export REWRITE=1
    # /disk is on a disk, as the test's scratch directory must be.
    mkdir -p "$root/crates/record" "$root/docs" /disk/tmp "${tmp%/*}"
    ln -s /disk/tmp "$tmp"
    ln -s /disk/recorded-io.md "$root/docs/recorded-io.md"
    truncate -s 2G /disk/pool
    expect "the kernel makes a pool" zpool create -f -o ashift=12 -O mountpoint=none $POOL /disk/pool || return
    # Ranges of files are cloned in whole records, and new data only if a clone may wait until it is written.
    expect "a dataset" zfs create -o mountpoint=$PLACE -o recordsize=4K $POOL/db || return
    echo 1 >/sys/module/zfs/parameters/zfs_bclone_wait_dirty
    expect "a block device" zfs create -V 16M $POOL/device || return
    export POOLWRIGHT_ZFS_DIR=$PLACE POOLWRIGHT_TEST_DEVICE=/dev/zd0 POOLWRIGHT_IO=/disk/bin/io FILE_SYSTEM=zfs
    expect "what is done on a dataset is recorded or counted" completeness --nocapture every_way_is_recorded_or_counted
    # Each row, and not only calls that OpenZFS does not have.
    cp /tmp/said /disk/recorded.out
    rows=$(grep -cE '^\| .[a-z0-9_]+. \| (recorded|counted|–) \|$' /disk/recorded.out)
    if [ "$rows" -gt 100 ]; then pass "the column has $rows rows"; else fail "the column has $rows rows: $(tail -n 20 /tmp/said | tr '\n' ' ')"; fi
    expect "writes are recorded" grep '^| .pwrite. | recorded |' /disk/recorded.out
    volume bios 0
    volume requests 1
    zpool export $POOL
}

step=$1
shift
"step_$step" "$@"
