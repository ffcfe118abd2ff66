# shellcheck shell=bash
# Functions for the guest's scripts that run a database under load. /disk has its data directory as a tar archive, and its programs.
# Sourced, never run. SYSTEM is `postgres` or `mariadb`, ROWS the number of rows with an id up to 1,000,000.

# as_database COMMAND: runs a command as the user of the database.
as_database() { su -s /bin/bash database -c "export LD_LIBRARY_PATH=/disk/lib PATH=$PATH:$(echo /disk/usr/lib/postgresql/*/bin); $1"; }

# database_system: makes what a database needs in the guest.
database_system() {
    echo 'database:x:1000:1000::/tmp:/bin/bash' >>/etc/passwd
    echo 'database:x:1000:' >>/etc/group
    chmod 1777 /tmp
    mkdir -p /dev/shm
    mount -t tmpfs tmpfs /dev/shm
    ip link set lo up
}

# database_files DIR: unpacks the data directory.
database_files() {
    tar -xf "/disk/$SYSTEM.tar" -C "$1"
    chown -R 1000:1000 "$1"
}

# postgres_service DIR: writes the scripts that start and stop the server on a data directory.
postgres_service() {
    { declare -f as_database; echo "as_database 'pg_ctl -w -t 300 -D $1 -l /tmp/log -o \"-k /tmp -h \\\"\\\"\" start'"; } >/tmp/start.sh
    { declare -f as_database; echo "as_database 'pg_ctl -w -t 300 -D $1 -m fast stop'"; } >/tmp/stop.sh
}

# sql STATEMENTS: of the running database.
sql() {
    case $SYSTEM in
        postgres) as_database "psql -h /tmp -U postgres -Atqc \"$1\" postgres" ;;
        mariadb) mariadb --no-defaults -u root -S /tmp/socket -N -e "$1" test ;;
    esac
}

# The rows that were committed, in order: the client has written each number after its commit.
load() {
    n=1000000
    while [ ! -e /tmp/enough ]; do
        n=$((n + 1))
        if sql "INSERT INTO t VALUES ($n, repeat('row ', 50))" >/dev/null 2>&1; then echo $n >>/tmp/committed; fi
        sleep 0.5
    done
}

# intact TEXT: the database checks itself, and has every row.
intact() {
    local check missing
    case $SYSTEM in
        postgres) check=$(sql "SET enable_indexscan=off; SELECT count(*) = count(DISTINCT id) FROM t") ;;
        mariadb) check=$(sql "CHECK TABLE t EXTENDED" | awk '{ print $NF }') ;;
    esac
    case $check in
        t | OK) pass "$1: the database's own check" ;;
        *) fail "$1: the database's own check: $check" ;;
    esac
    # A row that is committed from here on may be missing in the answer.
    sort -n /tmp/committed >/tmp/committed.before
    sql "SELECT id FROM t WHERE id > 1000000 ORDER BY id" >/tmp/present
    missing=$(awk 'NR == FNR { present[$1]; next } !($1 in present)' /tmp/present /tmp/committed.before | wc -l)
    same "$1: of $(wc -l </tmp/committed.before) rows committed meanwhile, missing" "$missing" 0
    same "$1: rows of before" "$(sql "SELECT count(*) FROM t WHERE id <= 1000000")" "$ROWS"
}
