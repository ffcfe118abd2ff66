# shellcheck shell=bash
# The workload `mariadb_fsync` of `truth.sh`: that of `mariadb`, whose server writes through the ARC.

# shellcheck source=scripts/vm/truth_mariadb.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_mariadb.sh"
FLUSH=fsync
