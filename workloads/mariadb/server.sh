#!/usr/bin/env bash
# Runs a private MariaDB in its own directory, reachable through a Unix socket only.
#
# usage: server.sh start DIR [--page-size 16k] [--buffer-pool 64M] [--data-dir DATA] [--native-aio on|off]
#        server.sh stop DIR
#        server.sh status DIR
#
# start creates DIR/data (or DATA) with the layout of a Debian server and a configuration DIR/my.cnf, and starts
# mariadbd with this configuration only: nothing in /etc/mysql is read, and no port is opened. An existing directory
# is started again with its configuration. Commits are durable: each one reaches the redo log and the binary log. The
# buffer pool is small so that the load reads from storage. --native-aio off makes InnoDB use pread and pwrite instead
# of the kernel's asynchronous interface (io_uring or libaio), which is the default.
#
# DIR/mariadb.sock is the socket, DIR/pid the process ID, DIR/error.log the server's log.
# Exit status: 0 done (status: running), 1 failed (status: not running), 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

PAGE_SIZE=16k
BUFFER_POOL=64M
NATIVE_AIO=on
# Time limit in seconds, for a slow disk and a busy machine.
START_PATIENCE=300
STOP_PATIENCE=300

parse_arguments() {
    case ${1:-} in
        start | stop | status) VERB=$1 ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "expected start, stop or status, and a directory; see --help" ;;
    esac
    [ -n "${2:-}" ] || die 2 "'$VERB' needs a directory; see --help"
    DIR=$(realpath -m -- "$2")
    DATA=$DIR/data
    shift 2
    while [ $# -gt 0 ]; do
        [ $# -ge 2 ] || die 2 "'$1' needs a value; see --help"
        case $1 in
            --page-size) PAGE_SIZE=$2 ;;
            --buffer-pool) BUFFER_POOL=$2 ;;
            --native-aio) NATIVE_AIO=$2 ;;
            --data-dir) DATA=$(realpath -m -- "$2") ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift 2
    done
}

# server_pid: prints the process ID if the process is this directory's server (a process ID can be reused).
server_pid() {
    local pid
    pid=$(cat "$DIR/pid" 2>/dev/null || true)
    [ -n "$pid" ] && tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF -- "--defaults-file=$DIR/my.cnf" && echo "$pid"
}

sql() { mariadb --defaults-file="$DIR/my.cnf" --batch --skip-column-names "$@"; }

write_configuration() {
    cat >"$DIR/my.cnf" <<EOF
# Written by workloads/mariadb/server.sh; the server and its clients read this file only.
[client]
socket = $DIR/mariadb.sock
user = root

[mariadbd]
datadir = $DATA
socket = $DIR/mariadb.sock
pid-file = $DIR/pid
log-error = $DIR/error.log
tmpdir = $DIR/tmp
skip-networking
skip-name-resolve
character-set-server = utf8mb4
local-infile = OFF
innodb-page-size = $PAGE_SIZE
innodb-buffer-pool-size = $BUFFER_POOL
innodb-log-file-size = 96M
innodb-flush-log-at-trx-commit = 1
innodb-file-per-table = ON
innodb-use-native-aio = $NATIVE_AIO
innodb-buffer-pool-dump-at-shutdown = OFF
innodb-buffer-pool-load-at-startup = OFF
log-bin = mysql-bin
binlog-format = ROW
sync-binlog = 1
server-id = 1
max-binlog-size = 64M
EOF
    [ "$(id -u)" -ne 0 ] || echo "user = root" >>"$DIR/my.cnf"
}

create() {
    say "Creating a MariaDB in $DATA (page size $PAGE_SIZE, buffer pool $BUFFER_POOL)"
    mkdir -p "$DIR/tmp" "$DATA"
    chmod 700 "$DIR"
    [ -z "$(ls -A "$DATA")" ] || die 3 "$DATA is not empty and was not created by this script; it was not changed"
    write_configuration
    local user=()
    [ "$(id -u)" -ne 0 ] || user=(--user=root)
    # Without --force it fails on a machine that cannot look up its own name, such as a new container.
    mariadb-install-db --no-defaults ${user[@]+"${user[@]}"} --datadir="$DATA" --skip-test-db --force \
        --auth-root-authentication-method=normal --innodb-page-size="$PAGE_SIZE" \
        --innodb-log-file-size=96M >"$DIR/install.log" 2>&1 \
        || { tail -n 20 "$DIR/install.log" >&2; die 1 "mariadb-install-db failed in $DATA (its last lines are above)"; }
}

start() {
    local tool pid waited=0
    for tool in mariadbd mariadb mariadb-install-db; do
        command -v "$tool" >/dev/null 2>&1 || die 1 "$tool is not installed; run scripts/install.sh"
    done
    # The kernel limits the path of a socket to 107 bytes.
    [ ${#DIR} -le 94 ] || die 2 "the path of the directory is too long for a Unix socket (${#DIR} bytes, at most 94): $DIR"
    pid=$(server_pid) && die 1 "a server is already running in $DIR (process $pid)"
    [ -e "$DIR/my.cnf" ] || create
    # A separate session: Ctrl-C at the terminal must not kill the server before it is stopped cleanly. The
    # process ID is written before the server itself would write it, so that an interrupted start can still be
    # stopped.
    # shellcheck disable=SC2016
    setsid sh -c 'echo $$ >"$0/pid" && exec mariadbd "$1"' "$DIR" "--defaults-file=$DIR/my.cnf" \
        </dev/null >>"$DIR/error.log" 2>&1 &
    pid=$!
    until sql -e 'SELECT 1' >/dev/null 2>&1; do
        if ! kill -0 "$pid" 2>/dev/null || [ $waited -ge $((START_PATIENCE * 10)) ]; then
            kill -KILL "$pid" 2>/dev/null || true
            tail -n 20 "$DIR/error.log" >&2
            die 1 "mariadbd did not start in $DIR (the end of its error log is above)"
        fi
        sleep 0.1
        waited=$((waited + 1))
    done
    say "MariaDB $(sql -e 'SELECT VERSION()') runs in $DIR (process $(server_pid))"
}

stop() {
    local pid waited=0
    pid=$(server_pid) || { say "No server runs in $DIR"; return 0; }
    kill -TERM "$pid"
    while kill -0 "$pid" 2>/dev/null; do
        if [ $waited -ge $((STOP_PATIENCE * 10)) ]; then
            warn "mariadbd (process $pid) did not stop within $STOP_PATIENCE s and is killed"
            kill -KILL "$pid" 2>/dev/null || true
        fi
        sleep 0.1
        waited=$((waited + 1))
    done
    say "MariaDB in $DIR stopped"
}

status() {
    local pid
    pid=$(server_pid) || { say "not running"; exit 1; }
    say "running, process $pid, socket $DIR/mariadb.sock"
}

parse_arguments "$@"
"$VERB"
