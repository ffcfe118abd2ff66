# shellcheck shell=bash
# The guest's part of the part `space`: scripts/test-kernel.sh runs this script in the guest. It copies the files of /disk/data into
# datasets with the settings of /disk/settings, and writes what the kernel says of each file to /disk/space.tsv. Each result is a line that
# starts with "pass" or "fail".
set -u
umask 022

pass() { printf 'pass\t%s\n' "$*"; }
fail() { printf 'fail\t%s\n' "$*"; }

# copy SOURCE TARGET LENGTH START+LENGTH...: writes the data ranges of a file in order; all else stays a hole.
copy() {
    local source=$1 target=$2 length=$3 range start count
    shift 3
    if [ "$*" = "0+$length" ]; then
        dd if="$source" of="$target" bs=1M 2>/dev/null
        return
    fi
    for range in "$@"; do
        start=$((${range%+*} / 4096))
        count=$(((${range#*+} + 4095) / 4096))
        dd if="$source" of="$target" bs=4096 skip=$start seek=$start count=$count conv=notrunc 2>/dev/null || return 1
    done
    truncate -s "$length" "$target"
}

# fill DATASET PLACE: copies all files into a mounted dataset, and compares the copies.
fill() {
    local path length ranges
    while IFS=$'\t' read -r path length ranges; do
        mkdir -p "$2/$(dirname "$path")"
        # shellcheck disable=SC2086 # one argument for each range
        copy "/disk/data/$path" "$2/$path" "$length" $ranges || { fail "$1: copying $path"; return 1; }
        cmp -s "/disk/data/$path" "$2/$path" || { fail "$1: the copy of $path differs"; return 1; }
    done </disk/extents
}

# describe DATASET PLACE: what the kernel says of the dataset and of each of its files.
describe() {
    printf 'dataset\t%s\t%s\n' "$1" "$(zfs get -Hp -o value referenced "$1")"
    (cd "$2" && find . -type f -exec stat -c "file	$1	%n	%b	%s	%o" {} +)
}

# step_fill: /disk/settings has a line "ASHIFT NAME RECORDSIZE COMPRESSION" for each dataset.
step_fill() {
    local ashift name recordsize compression pool began
    : >/disk/space.tsv
    cut -f 1 /disk/settings | sort -un >/tmp/ashifts
    while read -r ashift; do
        pool=space$ashift
        truncate -s 2G "/disk/$pool"
        zpool create -f -o "ashift=$ashift" -O mountpoint=none -O atime=off "$pool" "/disk/$pool" || { fail "zpool create $pool"; return; }
        awk -v "ashift=$ashift" '$1 == ashift' /disk/settings >/tmp/settings
        while IFS=$'\t' read -r _ name recordsize compression; do
            began=$(cut -d . -f 1 /proc/uptime)
            mkdir -p "/mnt/$name"
            zfs create -o "mountpoint=/mnt/$name" -o "recordsize=$recordsize" -o "compression=$compression" "$pool/$name" || { fail "zfs create $pool/$name"; return; }
            fill "$pool/$name" "/mnt/$name" || return
            zpool sync "$pool"
            describe "$pool/$name" "/mnt/$name" >>/disk/space.tsv
            zfs unmount "$pool/$name"
            pass "$pool/$name: recordsize=$recordsize compression=$compression filled by the kernel ($(($(cut -d . -f 1 /proc/uptime) - began)) s)"
        done </tmp/settings
        if zpool export "$pool"; then pass "$pool: exported"; else fail "$pool: zpool export"; fi
    done </tmp/ashifts
}

step=$1
shift
"step_$step" "$@"
