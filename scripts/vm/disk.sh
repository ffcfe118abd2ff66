# shellcheck shell=bash
# Copies files into and out of the guest's disk images, without mounting anything on this machine.
# Sourced, never run.

# disk_make IMAGE SIZE FILE...: makes an ext4 image of this size, with these files in its root directory. The files are moved, which
# saves the space of a second copy.
disk_make() {
    local image=$1 size=$2 staging=$1.files
    shift 2
    rm -rf "$staging"
    mkdir "$staging"
    [ $# -eq 0 ] || mv -- "$@" "$staging/"
    rm -f "$image"
    truncate -s "$size" "$image"
    # Initialize the image completely, so that the guest does not do it in the background.
    mke2fs -q -t ext4 -m 0 -E lazy_itable_init=0,lazy_journal_init=0 -d "$staging" "$image"
    rm -rf "$staging"
}

# disk_get IMAGE DIR NAME...: copies these files from the image's root directory to DIR, after the guest has ended. A missing file is
# skipped.
disk_get() {
    local image=$1 into=$2 name status=0
    shift 2
    # After a crash, replay the journal of the file system first. Status 1 means that e2fsck replayed it.
    e2fsck -p "$image" >/dev/null 2>&1 || status=$?
    [ "$status" -le 1 ] || { e2fsck -fy "$image" >/dev/null 2>&1 || [ $? -le 1 ] || return 1; }
    for name in "$@"; do
        rm -f "$into/$name"
        debugfs -R "dump /$name $into/$name" "$image" 2>/dev/null
        [ ! -s "$into/$name" ] || fallocate --dig-holes "$into/$name"
    done
}
