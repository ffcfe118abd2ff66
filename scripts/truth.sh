#!/usr/bin/env bash
# Compares the predictions of `tune` and `replay` with measurements of the database itself. Records a database under load, predicts the
# effect of settings of its data's dataset, runs the database on a mounted pool with each setting, and reports the errors.
#
# usage: scripts/truth.sh WORKLOAD [--blocks 3] [--most N] [--within 4] [--seconds 15] [--warm 5] [--size 1] [--record 20]
#                         [--record-on host|pool] [--device KIND]
#                         [--settings N] [--rounds 2] [--replay-options '…'] [--tune-options '…'] [--scale full] [--seed 1]
#                         [--out DIR] [--scratch DIR] [--plan-only] [--predict-only]
#        scripts/truth.sh --check [WORKLOAD…] [options as above]
#        scripts/truth.sh --publish [--settings FILE] DIR…
#        scripts/truth.sh --guest [options: --guest --help]
#
#   WORKLOAD          a study of campaigns/truth.toml
#   --blocks          number of blocks; each block runs every setting once, in random order. A later run adds blocks to the existing ones
#   --most            add blocks, up to this number, until the change of the rate of every setting is known within the bound
#   --within          the bound in per cent: a setting whose change of the rate has a wider 95 % interval is marked as not known
#   --seconds, --warm length of the measured window of a trial, and of the warm-up before it
#   --size            size of the database, relative to the workload's default
#   --record          seconds to record for the prediction
#   --record-on       host: record on this host's file system, as for a database that will move to ZFS; pool: record on a mounted
#                     pool with today's settings, as for a database that is already on ZFS
#   --device          device profile of the pools, instead of the campaign's. Plan, trials and comparison are kept for each device
#                     (plan-KIND.json and so on); all devices share one recording. The settings that plans for other devices
#                     recommend are run too: to run all of them on all devices, make the plans first, with --plan-only for each
#   --plan-only       stop after the plan
#   --settings        only the first N settings (the recommended setting is always run)
#   --rounds          number of predictions of each setting; a round predicts all settings, and compares them with today's setting of
#                     the same round (2)
#   --replay-options  further options of `poolwright replay`, for the predictions; --tune-options likewise, for `poolwright tune`
#   --predict-only    compare with existing trials; run none
#   --scratch         directory of the pools (default: memory, if there is enough)
#   --check           the short form: three settings, one block of short windows, no plan. Prints a line for each workload (default: all),
#                     and fails if one cannot be run. Short windows do not measure the errors of predictions
#   --guest           compare with a kernel's OpenZFS instead of mounts, in a virtual machine whose clock counts instructions
#   --publish         write the figures of runs with --guest to the track record that plans show (crates/tune/track-record.json)
#
# Recording requires root. Results are in DIR (lab-results/truth/WORKLOAD; with --check, lab-results/truth-check): truth.md,
# truth.json, plan.json, t.parquet, and the trials in truth.db. Existing results are not computed again: to start over, remove DIR.
#
# Exit status: 0 done, 1 failed or a workload could not be run, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

PROGRAM=run
case ${1:-} in
    -h | --help) usage_from "$0"; exit 0 ;;
    --check) PROGRAM=check; shift ;;
    --guest) shift; exec "$POOLWRIGHT_ROOT/scripts/truth/guest.sh" "$@" ;;
    --publish) PROGRAM=publish; shift ;;
    '' | -*) die 2 "no workload given; see --help" ;;
esac
if [ $PROGRAM != publish ]; then
    [ "$(id -u)" -eq 0 ] || die 1 "recording requires root"
    [ -x "${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright" ] || die 1 "poolwright is not built: make build"
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 "$POOLWRIGHT_ROOT/scripts/truth/$PROGRAM.py" "$@"
