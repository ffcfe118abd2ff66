# shellcheck shell=bash
# The workload `sqlite_rollback` of `truth.sh`: that of `sqlite` with a rollback journal instead of a write-ahead log.

# shellcheck source=scripts/vm/truth_sqlite.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_sqlite.sh"
LAB=sqlite_rollback
