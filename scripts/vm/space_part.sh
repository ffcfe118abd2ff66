# shellcheck shell=bash
# The part `space` of scripts/test-kernel.sh, which sources this file: `poolwright estimate --full` against the kernel's allocations.

# space_databases DIR: files of a PostgreSQL and of a MariaDB, below DIR/postgresql and DIR/mariadb.
space_databases() {
    local path
    mkdir -p "$1/postgresql" "$1/mariadb"
    postgres_make "concat('order ', n, ' of customer ', n * 7919 % 5003, ', ', md5((n % 977)::text), ' placed on day ', n / 300, ' in ', repeat('region ', n % 7))"
    # The table, its index, and the catalogs of more than 64K.
    find "$WORK/postgres/db/base/5" -type f -size +64k | sort | while read -r path; do
        cp --sparse=never "$path" "$1/postgresql/"
    done
    mariadb_make "concat('order ', seq, ' of customer ', seq * 7919 % 5003, ', ', md5(seq % 977), ' placed on day ', seq div 300, ' in ', repeat('region ', seq % 7))"
    cp --sparse=never "$WORK/mariadb/test/t.ibd" "$1/mariadb/"
    rm -rf "$WORK/postgres" "$WORK/mariadb"
}

part_space() {
    local disk=$WORK/space.disk data=$WORK/space.data stage=$WORK/space.stage pools=()
    python3 "$POOLWRIGHT_ROOT/scripts/vm/space_data.py" make "$data"
    space_databases "$data"
    mkdir "$stage"
    cp -a "$data" "$stage/data"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/space_data.py" extents "$data" >"$stage/extents"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/space.py" settings >"$stage/settings"
    expect "estimate --full of every file" python3 "$POOLWRIGHT_ROOT/scripts/vm/space.py" estimate "$PROGRAM" "$data" "$WORK/space.json"
    mapfile -t pools < <(cut -f 1 "$stage/settings" | sort -nu | sed "s/^/space/")
    disk_make "$disk" 10G "$stage"/*
    GUEST_STEPS=space.sh GUEST_SECONDS=5400 guest "$disk" 0 fill
    disk_get "$disk" "$WORK" space.tsv "${pools[@]}"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/space.py" compare "$WORK/space.json" "$WORK" >"$WORK/space.table" || fail "space.py compare ended with status $?"
    report_table "$WORK/space.table"
    rm -rf "$disk" "$stage"
}
