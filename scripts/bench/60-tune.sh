#!/usr/bin/env bash
# Compares the recommendation of `tune` with every combination of the settings that it searches, each replayed on the whole recording.
#
# usage: scripts/bench/60-tune.sh [TRACE DIR]
#
# TRACE is a recording of the database in DIR, whose files share a dataset. Without them, the script records a private MariaDB under load.
# The objective is that of the goal "balanced" (docs/method.md), computed from the replays of the grid for all settings. The grid takes
# hours on a recording with many operations. With BENCH_SMOKE=1 it has six settings and the recording is short.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
MARIADB=$POOLWRIGHT_ROOT/workloads/mariadb
DB=$SCRATCH/db
PROGRAM=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright
TRACE=${1:-$SCRATCH/t.parquet}
DIR=${2:-$DB/data}
COMMON=(--arc 128M --device nvme)
if [ "${BENCH_SMOKE:-0}" = 1 ]; then
    SECONDS_RECORDED=8 SCALE=0.2 BUDGET=40s GRID=(-o "recordsize=16K,128K" -o "compression=off,lz4,zstd-3")
else
    SECONDS_RECORDED=10 SCALE=1 BUDGET=120s
    GRID=(-o "recordsize=4K,8K,16K,32K,64K,128K,256K,512K,1M" -o "compression=off,lz4,zstd-1,zstd-3" -o "logbias=latency,throughput"
        -o "primarycache=all,metadata" -o "prefetch=all,none")
fi

clean_up() {
    trap '' INT TERM
    "$MARIADB/server.sh" stop "$DB" >/dev/null 2>&1 || true
    [ -n "${BENCH_SCRATCH:-}" ] || rm -rf -- "$SCRATCH"
}
trap clean_up EXIT

if [ $# -eq 0 ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "BENCH-SKIP recording requires root"
        exit 0
    fi
    "$MARIADB/record.sh" "$DB" -o "$TRACE" --scale "$SCALE" --for "$SECONDS_RECORDED"
fi

# Without O_DIRECT, the property changes nothing.
if "$PROGRAM" trace show "$TRACE" | grep '([1-9][0-9]*% direct' >/dev/null && [ "${BENCH_SMOKE:-0}" = 0 ]; then
    GRID+=(-o "direct=standard,disabled")
fi

say "Tune"
BEGAN=$(date +%s.%N)
STATUS=0
"$PROGRAM" tune "$DIR" --trace "$TRACE" "${COMMON[@]}" --budget $BUDGET --plan "$SCRATCH/plan.json" \
    --report "$SCRATCH/report.html" >"$SCRATCH/tune.txt" || STATUS=$?
TOOK=$(echo "$(date +%s.%N) $BEGAN" | awk '{ printf "%.1f", $1 - $2 }')
case $STATUS in 0 | 4) ;; *) die "$STATUS" "tune ended with status $STATUS" ;; esac
sed -n '1,12p' "$SCRATCH/tune.txt"

say "The grid"
# As in the trials of `tune`, the files are those in DIR, even if they were restored since.
"$PROGRAM" replay "$TRACE" --data "$DIR" --application "${COMMON[@]}" --sample-bytes 16G "${GRID[@]}" --json >"$SCRATCH/grid.json"
python3 "$(dirname -- "$0")/tune_figures.py" "$SCRATCH" "$TOOK"
