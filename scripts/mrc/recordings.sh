#!/usr/bin/env bash
# Makes the two recordings with which engine.sh compares the model and the engine for docs/arc.md: a MariaDB and a PostgreSQL under
# load. Each is a private server in a scratch directory, filled, put under a mixed load and recorded by `poolwright record`.
#
# usage: scripts/mrc/recordings.sh [--for 90] [--scale 1] DIR
#
# DIR/mariadb.parquet: the web shop of workloads/mariadb (350 MB at scale 1; 16K pages, a buffer pool of 24M), four threads.
# DIR/postgresql.parquet: pgbench's accounts (320 MB at scale 1; 8K pages, shared buffers of 16M), four clients; skewed reads
# and updates, and range scans. Both databases are far larger than their own caches, so most repeated accesses reach the file
# system. --for is the length of each recording in seconds. The queries are the same in each run, but not the interleaving of the
# four clients, so two runs make similar, not identical, traces.
#
# Needs root (as `poolwright record` does), mariadb-server, sysbench and postgresql (scripts/install.sh installs them), and 2 GB
# in ${TMPDIR:-/tmp}. POOLWRIGHT names the program; default: target/release/poolwright.
# Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

WORKLOAD=$POOLWRIGHT_ROOT/workloads/mariadb
POOLWRIGHT=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
CLIENTS=4
LENGTH=90
SCALE=1
OUT=
SCRATCH=
LOAD=

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help) usage_from "$0"; exit 0 ;;
            --for) [ $# -ge 2 ] || die 2 "--for needs seconds; see --help"; LENGTH=$2; shift ;;
            --scale) [ $# -ge 2 ] || die 2 "--scale needs a number; see --help"; SCALE=$2; shift ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *) [ -z "$OUT" ] || die 2 "only one DIR is allowed; see --help"; OUT=$(realpath -m -- "$1") ;;
        esac
        shift
    done
    [ -n "$OUT" ] || die 2 "DIR is missing; see --help"
    case $LENGTH$SCALE in *[!0-9]*) die 2 "--for and --scale must be whole numbers; see --help" ;; esac
}

clean_up() {
    local status=$?
    trap - EXIT ERR
    [ -z "$LOAD" ] || kill -TERM "$LOAD" 2>/dev/null || true
    [ ! -e "$SCRATCH/mariadb/my.cnf" ] || "$WORKLOAD/server.sh" stop "$SCRATCH/mariadb" >/dev/null || true
    [ ! -e "$SCRATCH/postgresql/data/postmaster.pid" ] || pg pg_ctl -D "$SCRATCH/postgresql/data" -w -m immediate stop >/dev/null || true
    [ -z "$SCRATCH" ] || rm -rf -- "$SCRATCH"
    exit "$status"
}

# recorded DATA TRACE COMMAND...: runs the command and records DATA to TRACE. Skips the first ten seconds, in which the database's cold
# cache reads everything once.
recorded() {
    local data=$1 trace=$2
    shift 2
    "$@" >"$SCRATCH/load.log" 2>&1 &
    LOAD=$!
    sleep 10
    "$POOLWRIGHT" record --force --dir "$data" --for "${LENGTH}s" -o "$trace"
    wait "$LOAD" || { tail -n 20 "$SCRATCH/load.log" >&2; die 1 "the load failed (its last lines are above)"; }
    LOAD=
}

mariadb_recording() {
    local dir=$SCRATCH/mariadb
    "$WORKLOAD/server.sh" start "$dir" --page-size 16k --buffer-pool 24M
    "$WORKLOAD/fill.sh" "$dir" --scale "$SCALE" --seed 1 | sed -n '/^Filled/p'
    recorded "$dir/data" "$OUT/mariadb.parquet" \
        "$WORKLOAD/load.sh" "$dir" --time $((LENGTH + 15)) --threads "$CLIENTS" --seed 1
    "$WORKLOAD/server.sh" stop "$dir"
}

# A PostgreSQL server refuses to run as root.
pg() {
    local as=(env)
    [ "$(id -u)" -ne 0 ] || as=(runuser -u postgres -- env)
    (cd / && "${as[@]}" PATH="$PG_BIN:$PATH" PGHOST="$SCRATCH/postgresql" PGDATABASE=postgres "$@")
}

# Writes the queries of the clients. permute: accounts of neighbouring rank are not on one page.
write_queries() {
    cat >"$1/read.sql" <<'SQL'
\set rows 100000 * :scale
\set aid permute(random_zipfian(1, :rows, 1.05), :rows)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SQL
    cat >"$1/update.sql" <<'SQL'
\set rows 100000 * :scale
\set aid permute(random_zipfian(1, :rows, 1.05), :rows)
\set delta random(-5000, 5000)
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SQL
    cat >"$1/scan.sql" <<'SQL'
\set rows 100000 * :scale
\set aid random(1, :rows)
\set length random(1000, 20000)
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + :length;
SQL
}

postgresql_recording() {
    local dir=$SCRATCH/postgresql
    mkdir "$dir"
    write_queries "$dir"
    chmod 755 "$dir" "$dir"/*.sql
    [ "$(id -u)" -ne 0 ] || chown postgres "$dir"
    pg initdb -k -D "$dir/data" --auth=trust >"$dir/initdb.log" 2>&1 \
        || { tail -n 5 "$dir/initdb.log" >&2; die 1 "initdb failed (its last lines are above)"; }
    pg pg_ctl -D "$dir/data" -w -t 60 -l "$dir/server.log" -o "-k $dir -c listen_addresses= -c shared_buffers=16MB \
        -c max_wal_size=256MB -c checkpoint_timeout=30s" start >/dev/null || { tail -n 5 "$dir/server.log" >&2; die 1 "PostgreSQL did not start"; }
    pg pgbench -i -q -s $((25 * SCALE)) >"$dir/pgbench.log" 2>&1 \
        || { tail -n 5 "$dir/pgbench.log" >&2; die 1 "pgbench could not fill the tables (its last lines are above)"; }
    say "PostgreSQL runs in $dir: $(du -sm "$dir/data/base" | cut -f 1) MiB of tables"
    recorded "$dir/data" "$OUT/postgresql.parquet" \
        pg pgbench -n -c "$CLIENTS" -j 2 -T $((LENGTH + 15)) --random-seed=1 -D "scale=$((25 * SCALE))" \
        -f "$dir/read.sql@80" -f "$dir/update.sql@19" -f "$dir/scan.sql@1"
    pg pg_ctl -D "$dir/data" -w -m fast stop >/dev/null
}

main() {
    parse_arguments "$@"
    [ -x "$POOLWRIGHT" ] || die 1 "$POOLWRIGHT does not exist; run cargo build --release -p poolwright"
    PG_BIN=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
    [ -n "$PG_BIN" ] || die 1 "PostgreSQL is not installed; run scripts/install.sh"
    mkdir -p "$OUT"
    trap clean_up EXIT
    trap 'exit 130' INT TERM HUP
    SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-recordings.XXXXXX")
    chmod 755 "$SCRATCH"
    mariadb_recording
    postgresql_recording
    say "wrote $OUT/mariadb.parquet $OUT/postgresql.parquet"
}

main "$@"
