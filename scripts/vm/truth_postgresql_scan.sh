# shellcheck shell=bash
# The workload `postgresql_scan` of `truth.sh`: updates of single rows and reports over a week's rows in a table of 370 MB.

# shellcheck source=scripts/vm/truth_postgresql.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_postgresql.sh"
LAB=postgresql_scan
LAB_SIZE=0.4
