# shellcheck shell=bash
# The workload `files` of `truth.sh`: a file server with 9,000 files of 430 MB, used by four processes.

LAB=files
LAB_SIZE=1
# shellcheck source=scripts/vm/truth_lab.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_lab.sh"

workload_stage() { lab_stage "$2"; }
