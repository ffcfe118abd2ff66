#!/usr/bin/env bash
# Runs an OLTP load on a filled private MariaDB (see server.sh and fill.sh).
#
# usage: load.sh DIR [--time 60] [--threads 4] [--seed 1] [--rate 0] [--log FILE]
#
# The load is sysbench with oltp.lua: point and range reads, inserts, deletes, and updates of JSON and text columns.
# It prints transactions per second every 10 s and a summary at the end. --rate limits the transactions per second (0:
# unlimited). --log writes the end and the duration of each transaction (see durations.lua).
# Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
set -euo pipefail
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
. "$HERE/../../scripts/lib.sh"

DURATION=60
THREADS=4
SEED=1
RATE=0
LOG=

case ${1:-} in
    -h | --help) usage_from "$0"; exit 0 ;;
    '' | -*) die 2 "no directory of the server given; see --help" ;;
esac
DIR=$(realpath -m -- "$1")
shift
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || die 2 "'$1' needs a value; see --help"
    case $1 in
        --time) DURATION=$2 ;;
        --threads) THREADS=$2 ;;
        --seed) SEED=$2 ;;
        --rate) RATE=$2 ;;
        --log) LOG=$2 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    shift 2
done
command -v sysbench >/dev/null 2>&1 || die 1 "sysbench is not installed; run scripts/install.sh"
[ -S "$DIR/mariadb.sock" ] || die 1 "no server is running in $DIR; start one with server.sh"

# exec: a signal to this script must reach sysbench itself.
export LUA_PATH="$HERE/?.lua;;"
exec sysbench "$HERE/oltp.lua" --db-driver=mysql --mysql-socket="$DIR/mariadb.sock" --mysql-user=root --mysql-db=shop \
    --threads="$THREADS" --time="$DURATION" --events=0 --rate="$RATE" --seed="$SEED" --rand-seed="$SEED" --rand-type=pareto \
    --report-interval=10 ${LOG:+--log="$LOG"} run
