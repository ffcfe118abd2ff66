#!/bin/sh
# Puts a load on the database of docs/tutorial.md: 3000 transactions. Each adds up the sales of one customer and changes one sale.
# The database is in POOLWRIGHT_DIR, which `poolwright confirm` sets, or else in /var/tmp/shop.
set -eu
database=${POOLWRIGHT_DIR:-/var/tmp/shop}/shop.db
for _ in $(seq 3000); do
    echo "begin immediate;
          select sum(cents) from sale where customer = abs(random() % 50000);
          update sale set cents = cents + 1 where id = 1 + abs(random() % 1000000);
          commit;"
done | sqlite3 "$database" >/dev/null
echo "work 3000"
