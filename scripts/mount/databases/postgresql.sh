#!/usr/bin/env bash
# PostgreSQL with data checksums under pgbench; checks: crash recovery, pg_checksums, pg_amcheck, and pgbench's balances.
#
# usage: see lib.sh in this directory
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../../lib.sh"
# shellcheck source=scripts/mount/databases/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

BIN=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
DATA=$MNT/pgdata
cd /

pg() { runuser -u postgres -- env PATH="$BIN:$PATH" PGHOST="$WORK/pg" PGDATABASE=postgres "$@"; }

start() {
    pg pg_ctl -D "$DATA" -w -t 60 -l "$WORK/pg/postgresql.log" -o "-k $WORK/pg -c listen_addresses= -c shared_buffers=16MB \
        -c max_wal_size=64MB -c checkpoint_timeout=30s" start || { tail -n 3 "$WORK/pg/postgresql.log"; return 1; }
    head -n 1 "$DATA/postmaster.pid" >"$WORK/postgresql.pid"
}

stop() { pg pg_ctl -D "$DATA" -w -t 60 -m "$1" stop; rm -f "$WORK/postgresql.pid"; }

sql() { pg psql -X -q -A -t -v ON_ERROR_STOP=1 -c "$1"; }

books() {
    sql "select count(*), sum(abalance) from pgbench_accounts"
    sql "select sum(tbalance) from pgbench_tellers"
    sql "select sum(bbalance) from pgbench_branches"
    sql "select count(*), sum(delta) from pgbench_history"
    sql "select md5(string_agg(h::text, '|' order by tid, bid, aid, delta, mtime)) from pgbench_history h"
}

balanced() {
    [ "$(sql "select count(distinct s) from (select sum(abalance) s from pgbench_accounts union all select sum(tbalance) from
        pgbench_tellers union all select sum(bbalance) from pgbench_branches union all select sum(delta) from pgbench_history) x")" = 1 ] \
        || { say "pgbench's balances do not add up"; return 1; }
}

if [ "$VERB" = fill ]; then
    install -d -o postgres -m 700 "$WORK/pg" "$DATA"
    pg initdb -k -D "$DATA" --auth=trust >"$WORK/initdb.log" 2>&1 || { tail -n 3 "$WORK/initdb.log"; exit 1; }
    start
    pg pgbench -i -q -s 3 --foreign-keys >"$WORK/pgbench.log" 2>&1 || { tail -n 3 "$WORK/pgbench.log"; exit 1; }
    sql "create extension amcheck"
    pg pgbench -n -c 4 -j 2 -T "$LOAD_SECONDS" >"$WORK/pgbench.log" 2>&1 || { tail -n 3 "$WORK/pgbench.log"; exit 1; }
    # Like a crash of the server: the next start replays the WAL.
    stop immediate
    start
    sql "vacuum (analyze)"
    pg pgbench -n -c 4 -j 2 -T 2 >"$WORK/pgbench.log" 2>&1 || { tail -n 3 "$WORK/pgbench.log"; exit 1; }
else
    pg pg_checksums --check -D "$DATA"
    start
fi
balanced
same books books
pg pg_amcheck --all --heapallindexed --parent-check
stop fast
none -E 'PANIC|invalid page|could not (read|write|fsync)' "$WORK/pg/postgresql.log"
