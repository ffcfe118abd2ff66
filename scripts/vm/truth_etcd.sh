# shellcheck shell=bash
# The workload `etcd` of `truth.sh`: etcd on bbolt with 100,000 keys; three of four requests put a value of a kilobyte.

LAB=etcd
LAB_SIZE=1
# shellcheck source=scripts/vm/truth_lab.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_lab.sh"

workload_stage() {
    lab_stage "$2"
    add_programs "$2" etcd
}
