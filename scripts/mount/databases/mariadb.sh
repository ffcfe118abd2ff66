#!/usr/bin/env bash
# MariaDB's InnoDB under sysbench, buffered or with O_DIRECT; checks: mariadb-check --extended, CHECKSUM TABLE, innochecksum.
#
# usage: see lib.sh in this directory
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../../lib.sh"
# shellcheck source=scripts/mount/databases/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

DATA=$MNT/mysql
METHOD=fsync
[ "$VARIANT" != direct ] || METHOD=O_DIRECT
SOCKET=$WORK/mariadb.sock

sql() { mariadb --no-defaults --socket="$SOCKET" --user=root --batch --skip-column-names "$@"; }

start() {
    mariadbd --no-defaults --user=mysql --datadir="$DATA" --socket="$SOCKET" --pid-file="$WORK/mariadb.server.pid" \
        --log-error="$WORK/mariadb.log" --skip-networking --innodb-flush-method=$METHOD --innodb-buffer-pool-size=24M \
        --innodb-log-file-size=24M --log-bin=mysql-bin --sync-binlog=1 --tmpdir="$MNT/tmp" --innodb-flush-log-at-trx-commit=1 \
        --character-set-server=utf8mb4 </dev/null >>"$WORK/mariadb.log" 2>&1 &
    SERVER=$!
    echo "$SERVER" >"$WORK/mariadb.pid"
    await 60 sql -e 'select 1' || { tail -n 3 "$WORK/mariadb.log"; return 1; }
    [ "$(sql -e 'select @@innodb_flush_method')" = $METHOD ]
}

stop() {
    mariadb-admin --no-defaults --socket="$SOCKET" --user=root shutdown
    await 60 gone "$SERVER"
    rm -f "$WORK/mariadb.pid"
}

bench() {
    sysbench "$1" --db-driver=mysql --mysql-socket="$SOCKET" --mysql-user=root --mysql-db=test --tables=3 \
        --table-size=8000 --threads=4 --time="$LOAD_SECONDS" "${@:2}" >"$WORK/sysbench.log" 2>&1 \
        || { grep -m 2 FATAL "$WORK/sysbench.log"; return 1; }
}

checksums() { sql test -e 'checksum table sbtest1, sbtest2, sbtest3 extended; select count(*) from sbtest1'; }

pages() {
    local file
    find "$DATA" \( -name '*.ibd' -o -name 'undo0*' \) | while read -r file; do
        innochecksum "$file" || { say "innochecksum: $file is damaged"; return 1; }
    done
    # Pages 64 to 191 are the doublewrite buffer, with copies of other pages, which innochecksum reports as misplaced.
    innochecksum --end-page=63 "$DATA/ibdata1" || { say "innochecksum: ibdata1 is damaged"; return 1; }
    innochecksum --start-page=192 "$DATA/ibdata1" || { say "innochecksum: ibdata1 is damaged"; return 1; }
}

if [ "$VERB" = fill ]; then
    # The server's user needs access to its socket and logs.
    chmod 777 "$WORK"
    install -d -o mysql "$DATA" "$MNT/tmp"
    mariadb-install-db --no-defaults --user=mysql --datadir="$DATA" --auth-root-authentication-method=normal \
        --innodb-flush-method=$METHOD --innodb-log-file-size=24M --skip-test-db >"$WORK/install.log" 2>&1 \
        || { tail -n 3 "$WORK/install.log"; exit 1; }
    start
    sql -e 'create database test'
    bench oltp_read_write prepare
    bench oltp_read_write run
    bench oltp_write_only run
else
    pages
    start
fi
same checksums checksums
mariadb-check --no-defaults --socket="$SOCKET" --user=root --extended --all-databases >"$WORK/check.log"
none -vE '[[:space:]]OK$' "$WORK/check.log"
stop
pages
none -E '\[ERROR\]' "$WORK/mariadb.log"
