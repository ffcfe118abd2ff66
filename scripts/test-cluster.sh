#!/usr/bin/env bash
# Tests campaigns on a cluster (`make test-cluster`): a private Slurm of three nodes on this machine, with the results in a PostgreSQL over TLS.
#
# usage: scripts/test-cluster.sh [--keep]
#
# While 60 trials run, a node is killed and started again, and the controller is killed and started again. Then every trial must have
# ended once, the tables must be those of a local run, and no process, mount or file may be left. Skipped where a part cannot be used.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$POOLWRIGHT_ROOT"

TRIALS=60
# Seconds. The machine may be slow: each limit is many times what the step takes.
PATIENCE=1200
CLUSTER=scripts/slurm/cluster.sh
PROGRAM=$(realpath -m "${CARGO_TARGET_DIR:-target}/release/poolwright")
KEEP=no
DIR=
RUN_PID=

skip() { say "SKIPPED: $*"; exit 0; }

fail() { say "test-cluster.sh: failed: $*"; exit 1; }

cleanup() {
    local status=$?
    trap - EXIT
    [ -z "$RUN_PID" ] || kill "$RUN_PID" 2>/dev/null || true
    if [ -n "$DIR" ]; then
        [ ! -e "$DIR/c" ] || "$CLUSTER" stop "$DIR/c" || true
        [ ! -e "$DIR/pg/data/postmaster.pid" ] || server pg_ctl -D data -m immediate stop >/dev/null || true
        if [ $KEEP = yes ] || [ $status -ne 0 ]; then say "kept: $DIR"; else rm -rf -- "$DIR"; fi
    fi
    exit $status
}

# server PROGRAM...: runs one of PostgreSQL's programs, which refuse to run as root.
server() {
    local as=()
    [ "$(id -u)" -ne 0 ] || as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    (cd "$DIR/pg" && "${as[@]}" "$POSTGRESQL/$1" "${@:2}")
}

# query SQL: prints the rows.
query() {
    PGPASSWORD=secret PGSSLMODE=verify-full PGSSLROOTCERT=$DIR/server.crt \
        "$POSTGRESQL/psql" -X -A -t -h localhost -p "$PORT" -U lab -d postgres -c "$1"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# A PostgreSQL that accepts only TLS and a password.
start_server() {
    PORT=$(free_port)
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
        -keyout "$DIR/server.key" -out "$DIR/server.crt" 2>"$DIR/openssl.log"
    mkdir "$DIR/pg"
    cp "$DIR/server.key" "$DIR/server.crt" "$DIR/pg/"
    echo secret >"$DIR/pg/password"
    chmod 0600 "$DIR/pg/server.key"
    [ "$(id -u)" -ne 0 ] || chown -R postgres: "$DIR/pg"
    server initdb -A scram-sha-256 --pwfile=password -U lab -N -D data >"$DIR/initdb.log"
    printf 'hostssl all all 127.0.0.1/32 scram-sha-256\nhostssl all all ::1/128 scram-sha-256\n' >"$DIR/pg/data/pg_hba.conf"
    server pg_ctl -D data -w -t 300 -l log \
        -o "-c listen_addresses=localhost -c port=$PORT -c unix_socket_directories= -c ssl=on -c ssl_cert_file=$DIR/pg/server.crt -c ssl_key_file=$DIR/pg/server.key" \
        start >"$DIR/pg_ctl.log"
    printf 'localhost:%s:*:lab:secret\n' "$PORT" >"$DIR/passfile"
    chmod 0600 "$DIR/passfile"
}

# until_ended NUMBER: waits until so many trials have ended.
until_ended() {
    local limit=$((SECONDS + PATIENCE))
    while [ "$(query "SELECT count(*) FROM lab_trial" 2>/dev/null || echo 0)" -lt "$1" ]; do
        kill -0 "$RUN_PID" 2>/dev/null || fail "the run ended early: $(tail -n 5 "$DIR/run.log")"
        [ $SECONDS -lt $limit ] || fail "$1 trials have not ended in time"
        sleep 0.5
    done
}

# kill_busy_node: kills the node of the trial that has begun last. Sets NODE. A trial may end in the moment before; then it is another one's
# turn, and the node is started again.
kill_busy_node() {
    local limit=$((SECONDS + PATIENCE)) token node
    while :; do
        [ $SECONDS -lt $limit ] || fail "no trial runs"
        IFS='|' read -r token node < <(query "SELECT token, node FROM lab_task WHERE state = 'claimed' ORDER BY token DESC LIMIT 1") || true
        [ -n "${node:-}" ] || { sleep 0.1; continue; }
        NODE=${node#node}
        "$CLUSTER" kill-node "$DIR/c" "$NODE"
        [ "$(query "SELECT count(*) FROM lab_task WHERE state = 'claimed' AND token = $token")" -eq 0 ] || break
        "$CLUSTER" start-node "$DIR/c" "$NODE"
    done
}

check() {
    local what=$1 found=$2 expected=$3
    [ "$found" = "$expected" ] || fail "$what: $found instead of $expected"
    say "  ok: $what: $found"
}

run_campaign() {
    "$PROGRAM" lab run scripts/slurm/slurm.toml "$@"
}

while [ $# -gt 0 ]; do
    case $1 in
        --keep) KEEP=yes ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    shift
done
[ -w /dev/fuse ] || skip "/dev/fuse cannot be used here"
POSTGRESQL=$(find /usr/lib/postgresql -path '*/bin/initdb' 2>/dev/null | sort -V | tail -n 1)
[ -n "$POSTGRESQL" ] || skip "PostgreSQL is not installed (package postgresql)"
POSTGRESQL=${POSTGRESQL%/initdb}
command -v openssl >/dev/null || skip "openssl is not installed"
scripts/slurm/packages.sh || skip "Slurm's packages cannot be downloaded"
[ -x "$PROGRAM" ] || cargo build --release --locked -p poolwright
trap cleanup EXIT
trap 'exit 130' INT TERM
DIR=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-slurm.XXXXXX")
chmod 0755 "$DIR"

step "A PostgreSQL with TLS" start_server
step "A Slurm of three nodes" "$CLUSTER" start "$DIR/c" 3
export PGPASSFILE=$DIR/passfile
URL="postgres://lab@localhost:$PORT/postgres?sslrootcert=$DIR/server.crt"
say "== $TRIALS trials; a node and the controller are killed meanwhile"
BEGAN=$SECONDS
(
    eval "$("$CLUSTER" env "$DIR/c")"
    exec "$PROGRAM" lab run scripts/slurm/slurm.toml --executor slurm --workers 3 --lease 10s --results "$URL" \
        --scratch "$DIR/scratch" --logs "$DIR/logs" --json
) >"$DIR/run.json" 2>"$DIR/run.log" &
RUN_PID=$!
until_ended 6
kill_busy_node
say "  killed node$NODE, with a trial on it"
until_ended 20
"$CLUSTER" restart-controller "$DIR/c"
say "  killed the controller, and started it again"
until_ended 35
"$CLUSTER" start-node "$DIR/c" "$NODE"
say "  started node$NODE again"
wait "$RUN_PID" || fail "the run: status $?: $(tail -n 5 "$DIR/run.log")"
RUN_PID=
say "== $TRIALS trials: $((SECONDS - BEGAN)) s"

check "trials with an outcome" "$(query "SELECT count(*) FROM lab_trial WHERE failed IS NULL")" $TRIALS
check "tasks that have ended" "$(query "SELECT count(*) FROM lab_task WHERE state = 'ended'")" $TRIALS
check "workers that said that they had saved a trial" "$(cat "$DIR"/logs/*.log | grep -c ', in [0-9.]* s$')" $TRIALS
check "nodes with trials" "$(query "SELECT count(DISTINCT node) FROM lab_task")" 3
REPEATED=$(query "SELECT count(*) FROM lab_task WHERE attempts > 1")
[ "$REPEATED" -ge 1 ] || fail "no trial was begun twice, although a node was killed"
say "  ok: trials that were begun again: $REPEATED"
say "  blocks that are on more than one node: $(query "SELECT count(*) FROM (SELECT block FROM lab_task GROUP BY block HAVING count(DISTINCT node) > 1) AS split") of 12"

step "The same run locally" run_campaign --results "$DIR/local.db" --scratch "$DIR" >"$DIR/local.log" 2>&1
"$PROGRAM" lab report scripts/slurm/slurm.toml --results "$URL" --json >"$DIR/cluster.json"
"$PROGRAM" lab report scripts/slurm/slurm.toml --results "$DIR/local.db" --json >"$DIR/local.json"
scripts/slurm/compare.py "$DIR/cluster.json" "$DIR/local.json"

step "Stopping the cluster" "$CLUSTER" stop "$DIR/c"
check "mounts that are left" "$(grep -c " $DIR/" /proc/mounts || true)" 0
check "scratch directories that are left" "$(find "$DIR/scratch" -mindepth 1 | wc -l)" 0
say "test-cluster.sh: ok"
