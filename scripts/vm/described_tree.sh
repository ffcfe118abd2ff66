# shellcheck shell=bash
# Functions that describe the tree of the part `resets`, its properties and its datasets, and compare two descriptions. For
# scripts/vm/resets.sh, which has the variables.

# tree_of_database: a line for each name. A directory that has moved is listed where it was.
tree_of_database() {
    if [ -L "$MOUNT"/wal ]; then
        tree list "db=$MOUNT" | grep -v '^db:/wal	'
        tree list "wal=$WAL_MOUNT" | sed 's|^wal:/|db:/wal/|; s|^db:/wal/\t|db:/wal\t|'
    else
        tree list "db=$MOUNT"
    fi
}

# for_all FORMAT TEST...: a line of stat for each name, or for those for which a test of find is true.
for_all() {
    local format=$1
    shift
    (cd "$MOUNT" && find . -xdev "$@" ! -path ./wal ! -path './wal/*' -exec /disk/bin/stat -c "$format" {} +)
    (cd "$MOUNT"/wal/ && find . -xdev "$@" -exec /disk/bin/stat -c "$format" {} + | sed 's|^\./|./wal/|; s|^\.\t|./wal\t|')
}

# describe DIR: everything that must be as after an undisturbed run. The time of change and the object numbers are not in it.
describe() {
    rm -rf "$1"
    mkdir -p "$1"
    zpool sync "$POOL"
    tree_of_database | sort >"$1/full"
    cut -f "$WITHOUT_OBJECTS" "$1/full" >"$1/tree"
    # The block size of files of one block, and the times of access, are not in the manifest.
    for_all '%n	%.9X' | sort >"$1/accessed"
    for_all '%n	%o' -type f | sort >"$1/block-sizes"
    for_all '%n	%b' -type f | sort >"$1/allocated"
    zfs get -Hp -r -t filesystem -o name,property,value,source all "$POOL" | awk -F '\t' '$4 != "-"' | sort >"$1/properties"
    zfs list -H -t all -o name | sort >"$1/datasets"
    find /disk/state -name '*.part-*' >"$1/temporary" 2>/dev/null
}

# differences EXPECTED FOUND: prints what differs, or nothing.
differences() {
    local of
    for of in tree accessed block-sizes properties datasets temporary; do
        cmp -s "$1/$of" "$2/$of" || { printf '%s differ: ' "$of"; diff "$1/$of" "$2/$of" | grep '^[-+][^-+]' | head -n 4 | cut -c 1-250 | tr '\n' '|'; }
    done
    [ -s "$2/tree" ] || printf 'the tree is empty '
    # Indirect blocks are compressed too, so that the space of equal files may differ by some sectors.
    awk -F '\t' 'NR == FNR { was[$1] = $2; next }
        { d = $2 - was[$1]; if (d < 0) d = -d; if (d > 32 + was[$1] / 50 && ++n <= 3) printf "%s has %d sectors instead of %d ", $1, $2, was[$1] }' \
        "$1/allocated" "$2/allocated"
}

# without_counts_of_root: replaces the number, the size and the links of the root directory.
without_counts_of_root() { awk -F '\t' -v OFS='\t' '$1 == "db:/" { $2 = $7 = $8 = "-" } { print }'; }

# snapshot_differences: the plan's snapshot must have the old files themselves.
snapshot_differences() {
    local name
    name=$(zfs list -H -t snapshot -o name)
    mkdir -p /mnt/snapshot
    mount -t zfs "$name" /mnt/snapshot || { printf 'the snapshot "%s" cannot be mounted ' "$name"; return; }
    # The hidden directory with copies may be in it, if an earlier run was interrupted: the root directory has an entry and a link more.
    # The root directory of a mounted snapshot has another number.
    tree list db=/mnt/snapshot | grep -v '^db:/\.poolwright-' | without_counts_of_root | sort >/tmp/snapshot
    umount /mnt/snapshot
    without_counts_of_root <"$SAVED/base/expected/full" | sort >/tmp/snapshot.expected
    cmp -s /tmp/snapshot.expected /tmp/snapshot \
        || { printf 'the snapshot differs: '; diff /tmp/snapshot.expected /tmp/snapshot | grep '^[-+][^-+]' | head -n 4 | cut -c 1-250 | tr '\n' '|'; }
}
