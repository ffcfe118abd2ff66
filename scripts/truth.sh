#!/usr/bin/env bash
# Holds what `tune` and `replay` predict against what the database does: records it on this host, predicts settings of
# its data's dataset, runs it on a mounted pool under each of them, and says how far the two are apart.
#
# usage: scripts/truth.sh WORKLOAD [--blocks 3] [--most N] [--within 4] [--seconds 15] [--warm 5] [--size 1] [--record 20]
#                         [--record-on host|pool] [--device KIND]
#                         [--settings N] [--rounds 2] [--replay-options '…'] [--tune-options '…'] [--scale full] [--seed 1]
#                         [--out DIR] [--scratch DIR] [--plan-only] [--predict-only]
#        scripts/truth.sh --check [WORKLOAD…] [options as above]
#        scripts/truth.sh --publish [--file FILE] DIR…
#
#   WORKLOAD          a study of campaigns/truth.toml
#   --blocks          how often each setting is run, in interleaved blocks of random order; more are added to those done
#   --most            go on to so many blocks until every change of the rate is known within the bound
#   --within          the bound in per cent: a setting whose change of the rate is not known so well (95 %) is marked as not known
#   --seconds, --warm the measured window of a trial and what comes before it
#   --size            of the database, relative to the workload's usual one
#   --record          seconds recorded for the prediction
#   --record-on       host: recorded on this host's file system, as where a database is to move to ZFS; pool: on a mounted
#                     pool with today's settings, as where it is on ZFS already
#   --device          another device under the pools than the campaign's; plan, trials and comparison are then kept as
#                     plan-KIND.json and so on, beside those of other devices, for one recording. What the plans for other
#                     devices recommend is run too: with --plan-only for each device first, all of them on all devices
#   --plan-only       stops after the plan
#   --settings        only the first N settings (the recommended one is run in any case)
#   --rounds          how often each setting is predicted, each time with all the others, and compared with today's of the same
#                     round (2)
#   --replay-options  more options of `poolwright replay`, for the predictions; --tune-options likewise
#   --predict-only    compares with the trials that are there
#   --scratch         where the pools are; left out, memory if it has the room
#   --check           the short form: three settings, one block of short windows, no plan; prints a line for each workload
#                     (all, if none is named) and fails if one cannot be run. It does not prove how far predictions are off
#   --publish         writes the figures of finished runs into the track record that plans show (crates/tune/track-record.json)
#
# Recording needs root. Results are in DIR (lab-results/truth/WORKLOAD; of --check lab-results/truth-check): truth.md,
# truth.json, plan.json, t.parquet, the trials in truth.db. What is there is not done again: to begin anew, remove DIR.
#
# Exit status: 0 done, 1 failed or a workload could not be run, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

PROGRAM=run
case ${1:-} in
    -h | --help) usage_from "$0"; exit 0 ;;
    --check) PROGRAM=check; shift ;;
    --publish) PROGRAM=publish; shift ;;
    '' | -*) die 2 "say the workload; see --help" ;;
esac
if [ $PROGRAM != publish ]; then
    [ "$(id -u)" -eq 0 ] || die 1 "recording needs the rights of root."
    [ -x "${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright" ] || die 1 "poolwright is not built: make build"
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 "$POOLWRIGHT_ROOT/scripts/truth/$PROGRAM.py" "$@"
