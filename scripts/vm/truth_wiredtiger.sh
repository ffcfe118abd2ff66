# shellcheck shell=bash
# The workload `wiredtiger` of `truth.sh`: WiredTiger 3.2, MongoDB's store. Compiling its load requires Debian's package libwiredtiger-dev.

# shellcheck disable=SC2034 # truth_orders.sh reads it
STORE=wiredtiger
# shellcheck source=scripts/vm/truth_orders.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_orders.sh"
