# shellcheck shell=bash
# The workload `leveldb` of `truth.sh`: LevelDB 1.23. Compiling its load requires Debian's package libleveldb-dev.

# shellcheck disable=SC2034 # truth_orders.sh reads it
STORE=leveldb
# shellcheck source=scripts/vm/truth_orders.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_orders.sh"
