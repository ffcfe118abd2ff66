# shellcheck shell=bash
# The part `backup` of scripts/test-kernel.sh, which sources this file: `poolwright backup` of a PostgreSQL on datasets of the kernel.

# backup_tables: puts the tables of pgbench into the database of postgres_make, whose log gets segments of 1 MiB. The emulated guest is too
# slow to do this, and each backup reads everything.
backup_tables() {
    local bin user=()
    bin=$(postgres_programs)
    [ "$(id -u)" -ne 0 ] || user=(setpriv --reuid nobody --clear-groups)
    "${user[@]}" "$bin/postgres" --single -D "$WORK/postgres/db" postgres >"$WORK/initdb.log" 2>&1 <<'END'
DROP TABLE t;
CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
CREATE TABLE acked (n bigint PRIMARY KEY);
INSERT INTO pgbench_branches VALUES (1, 0, '');
INSERT INTO pgbench_tellers SELECT n, 1, 0, '' FROM generate_series(1, 10) n;
INSERT INTO pgbench_accounts SELECT n, 1, 0, '' FROM generate_series(1, 100000) n;
END
    "${user[@]}" "$bin/pg_resetwal" --wal-segsize=1 -D "$WORK/postgres/db" >"$WORK/initdb.log"
}

# backup_stage DIR: a PostgreSQL, its programs and those that check a restored one, for program_disk.
backup_stage() {
    local bin
    bin=$(postgres_programs)
    postgres_data "$1"
    backup_tables
    tar -C "$WORK/postgres/db" -cf "$1/postgres.tar" .
    # The compiler that it needs is not in the guest.
    rm -f "$1"/usr/lib/postgresql/*/lib/llvmjit.so
    # `backup verify` starts the restored server with it.
    cp -L "$(command -v setpriv)" "$1/bin/"
    add_libraries "$1/lib" "$1/bin/setpriv" "$bin/pg_amcheck" "$bin/pg_dump" "$bin/pg_dumpall"
}

part_backup() {
    local disk=$WORK/backup.disk
    program_disk "$disk" 12G backup_stage
    GUEST_STEPS=backup.sh GUEST_SECONDS=$((3600 + BACKUPS * 120)) guest "$disk" 0 backup "$BACKUPS"
    rm -f "$disk"
}
