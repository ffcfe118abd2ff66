# shellcheck shell=bash
# The part `inspect` of scripts/test-kernel.sh, which sources this file: `poolwright inspect` finds planted faults of pools and databases.

# inspect_stage DIR: a PostgreSQL, a MariaDB, a SQLite and an etcd, as Debian's packages make them, for program_disk.
inspect_stage() {
    local program
    postgres_data "$1"
    mariadb_data "$1"
    rm -f "$WORK/shop.db"
    sqlite3 "$WORK/shop.db" "PRAGMA journal_mode=wal; CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
        WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 40000) INSERT INTO t SELECT n, 'row ' || n || ' of a table' FROM c;" >/dev/null
    cp "$WORK/shop.db" "$1/"
    for program in etcd mke2fs; do
        cp -L "$(command -v "$program")" "$1/bin/"
        add_libraries "$1/lib" "$1/bin/$program"
    done
}

part_inspect() {
    local disk=$WORK/inspect.disk
    program_disk "$disk" 8G inspect_stage
    GUEST_STEPS=inspect.sh GUEST_SECONDS=3600 guest "$disk" 0 faults
    no_kernel_failure
    rm -f "$disk"
}
