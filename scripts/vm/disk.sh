# shellcheck shell=bash
# Disks for the guest: how files get into it and out of it again, without mounting anything here.
# Sourced, never run.

# disk_make IMAGE SIZE FILE...: an ext4 image of that size with these files in its root directory; they are moved out of
# the way of a second copy.
disk_make() {
    local image=$1 size=$2 staging=$1.files
    shift 2
    rm -rf "$staging"
    mkdir "$staging"
    [ $# -eq 0 ] || mv -- "$@" "$staging/"
    rm -f "$image"
    truncate -s "$size" "$image"
    # Written out at once, so that the guest does not do it in the background.
    mke2fs -q -t ext4 -m 0 -E lazy_itable_init=0,lazy_journal_init=0 -d "$staging" "$image"
    rm -rf "$staging"
}

# disk_get IMAGE DIR NAME...: copies these files out of the image's root directory, after the guest has ended. One
# that is not there is not written.
disk_get() {
    local image=$1 into=$2 name status=0
    shift 2
    # After a crash the file system's own journal has to be played back first; 1 means that this was done.
    e2fsck -p "$image" >/dev/null 2>&1 || status=$?
    [ "$status" -le 1 ] || { e2fsck -fy "$image" >/dev/null 2>&1 || [ $? -le 1 ] || return 1; }
    for name in "$@"; do
        rm -f "$into/$name"
        debugfs -R "dump /$name $into/$name" "$image" 2>/dev/null
        [ ! -s "$into/$name" ] || fallocate --dig-holes "$into/$name"
    done
}
