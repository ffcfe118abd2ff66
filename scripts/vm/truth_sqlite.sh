# shellcheck shell=bash
# The workload `sqlite` of `truth.sh`: documents of 400 MB and a write-ahead log, used by four processes.

LAB=sqlite
LAB_SIZE=2
# shellcheck source=scripts/vm/truth_lab.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_lab.sh"

workload_stage() { lab_stage "$2"; }
