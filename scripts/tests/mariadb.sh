#!/usr/bin/env bash
# Tests the private MariaDB: the seed determines its data, it is reachable only through its socket, and it exits when stopped.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

MARIADB=$POOLWRIGHT_ROOT/workloads/mariadb
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-test.XXXXXX")

clean_up() {
    local status=$?
    trap - EXIT ERR
    for server in one two; do "$MARIADB/server.sh" stop "$SCRATCH/$server" >/dev/null; done
    rm -rf -- "$SCRATCH"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

sql() { mariadb --defaults-file="$SCRATCH/$1/my.cnf" --batch --skip-column-names -e "$2"; }
checksums() { sql "$1" "CHECKSUM TABLE shop.customers, shop.products, shop.orders, shop.order_lines, shop.events, shop.messages, shop.sessions"; }

# entropy_of TABLE: bits per byte, as printed by fill.sh.
entropy_of() { awk -v file="$1.ibd" '$1 == file { print $5 }' "$SCRATCH/fill.log"; }

"$MARIADB/server.sh" start "$SCRATCH/one" >/dev/null
"$MARIADB/fill.sh" "$SCRATCH/one" --scale 0.05 --seed 7 >"$SCRATCH/fill.log"
first=$(checksums one)
case $first in *NULL*) die 1 "a table is missing: $first" ;; esac

# The same seed gives the same data for any number of threads and any page size; another seed gives other data.
"$MARIADB/server.sh" start "$SCRATCH/two" --page-size 4k >/dev/null
"$MARIADB/fill.sh" "$SCRATCH/two" --scale 0.05 --seed 7 --threads 3 >/dev/null
[ "$first" = "$(checksums two)" ] || die 1 "the same seed gave different data"
[ "$(sql two 'SELECT @@innodb_page_size')" = 4096 ] || die 1 "--page-size 4k had no effect"
sql two 'DROP DATABASE shop'
"$MARIADB/fill.sh" "$SCRATCH/two" --scale 0.05 --seed 8 >/dev/null
[ "$(checksums one | head -n 1)" != "$(checksums two | head -n 1)" ] || die 1 "another seed gave the same data"

# The data are realistic: tokens have nearly the six bits of base64, text far fewer.
awk -v prose="$(entropy_of messages)" -v tokens="$(entropy_of sessions)" 'BEGIN { exit !(prose > 3 && prose < 5 && tokens > prose + 0.5 && tokens < 7) }' \
    || die 1 "unexpected entropy: messages $(entropy_of messages), sessions $(entropy_of sessions)"

[ "$(sql one 'SELECT @@skip_networking, @@sync_binlog, @@innodb_flush_log_at_trx_commit')" = "1	1	1" ] \
    || die 1 "the server listens on a port, or commits are not durable after the fill"

# unchanged: the tables that the load has not changed yet.
unchanged() {
    local table
    for table in customers products orders order_lines events messages; do
        [ "$(grep "shop.$table	" <<<"$first")" != "$(grep "shop.$table	" <<<"$last")" ] || echo "$table"
    done
}

# The load commits, changes all tables, and reports no error. It is repeated because a slow disk may need long for the rarest transaction:
# one in fifty writes a message.
for seed in 1 2 3 4 5 6 7 8 9 10; do
    "$MARIADB/load.sh" "$SCRATCH/one" --time 4 --seed $seed >"$SCRATCH/load.log"
    grep -q 'ignored errors: *0 ' "$SCRATCH/load.log" || die 1 "the load had errors: $(cat "$SCRATCH/load.log")"
    last=$(checksums one)
    [ -n "$(unchanged)" ] || break
done
[ -z "$(unchanged)" ] || die 1 "the load did not change $(unchanged | tr '\n' ' ')"

pid=$(cat "$SCRATCH/one/pid")
"$MARIADB/server.sh" stop "$SCRATCH/one" >/dev/null
! kill -0 "$pid" 2>/dev/null || die 1 "the server is still running after stop"
! "$MARIADB/server.sh" status "$SCRATCH/one" >/dev/null || die 1 "status reports that a stopped server is running"

# After a restart, the data are the same.
"$MARIADB/server.sh" start "$SCRATCH/one" >/dev/null
[ "$last" = "$(checksums one)" ] || die 1 "the data changed during a restart"
say "private MariaDB: ok ($(sed -n 's/.*transactions: *[0-9]* *(\(.*\))/\1/p' "$SCRATCH/load.log"))"
