#!/usr/bin/env bash
# Fills a private MariaDB (see server.sh) with a web shop's data, and prints how compressible it is.
#
# usage: fill.sh DIR [--scale 1] [--seed 1] [--threads 2]
#
# Seven tables with words, names, addresses, JSON documents and tokens from a seeded generator: about 350 MB at scale
# 1. The fill itself is not written to the binary log.
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
. "$HERE/../../scripts/lib.sh"

SCALE=1
SEED=1
THREADS=2

parse_arguments() {
    case ${1:-} in
        -h | --help) usage_from "$0"; exit 0 ;;
        '' | -*) die 2 "no directory of the server given; see --help" ;;
    esac
    DIR=$(realpath -m -- "$1")
    shift
    while [ $# -gt 0 ]; do
        [ $# -ge 2 ] || die 2 "'$1' needs a value; see --help"
        case $1 in
            --scale) SCALE=$2 ;;
            --seed) SEED=$2 ;;
            --threads) THREADS=$2 ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift 2
    done
}

sql() { mariadb --defaults-file="$DIR/my.cnf" --batch --skip-column-names "$@"; }

run_sysbench() {
    LUA_PATH="$HERE/?.lua;;" sysbench "$HERE/fill.lua" --db-driver=mysql --mysql-socket="$DIR/mariadb.sock" \
        --mysql-user=root --mysql-db=shop --verbosity=2 --threads="$THREADS" --scale="$SCALE" --seed="$SEED" "$@"
}

# The files are examined below, so every changed page must be written to them first.
write_back() {
    local tables
    tables=$(sql -e "SELECT GROUP_CONCAT(CONCAT('shop.', table_name)) FROM information_schema.tables WHERE table_schema = 'shop'")
    sql -e "FLUSH TABLES $tables FOR EXPORT; UNLOCK TABLES"
}

fill() {
    sql -e "CREATE DATABASE shop CHARACTER SET utf8mb4" || die 1 "cannot reach the server in $DIR, or it already has a shop"
    # The durability of single commits does not matter until the data is complete.
    sql -e "SET GLOBAL innodb_flush_log_at_trx_commit = 0; SET GLOBAL sync_binlog = 0"
    run_sysbench --threads=1 create
    run_sysbench prepare
    [ "$(sql -e 'SELECT COUNT(*) FROM shop.filled')" = "$THREADS" ] || die 1 "the fill failed; sysbench's message is above"
    sql -e "DROP TABLE shop.filled"
    sql -e "SET GLOBAL innodb_flush_log_at_trx_commit = 1; SET GLOBAL sync_binlog = 1; FLUSH BINARY LOGS"
    write_back
}

main() {
    parse_arguments "$@"
    command -v sysbench >/dev/null 2>&1 || die 1 "sysbench is not installed; run scripts/install.sh"
    [ -S "$DIR/mariadb.sock" ] || die 1 "no server is running in $DIR; start one with server.sh"
    local began=$SECONDS data
    fill
    data=$(sql -e 'SELECT @@datadir')
    say "Filled the shop (scale $SCALE, seed $SEED) in $((SECONDS - began)) s: $(du -cm "$data"/shop/*.ibd | tail -n 1 | cut -f 1) MiB in $(find "$data/shop" -name '*.ibd' | wc -l) tables"
    "$HERE/compressibility.sh" "$data"/shop/*.ibd
}

main "$@"
