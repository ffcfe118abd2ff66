#!/usr/bin/env bash
# Compares the recommendation of `tune` with an exhaustive grid. Records a private MariaDB under load, runs `tune`, then replays each
# recordsize from 8K to 128K and 1M with off, lz4, zstd-1 and zstd-3, and ranks the recommended setting among them.
#
# usage: scripts/bench/60-tune.sh
#
# The objective is that of the goal "balanced" (docs/method.md), computed from the trials of the grid for all settings. With
# BENCH_SMOKE=1 the grid has six settings and the recording is short. GRID_REPEAT sets the trials for each setting (2).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
MARIADB=$POOLWRIGHT_ROOT/workloads/mariadb
DB=$SCRATCH/db
PROGRAM=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright
ARC=128M
if [ "${BENCH_SMOKE:-0}" = 1 ]; then
    SECONDS_RECORDED=8 SCALE=0.2 REPEAT=1 BUDGET=40s RECORDSIZES=16K,128K COMPRESSIONS=off,lz4,zstd-3
else
    SECONDS_RECORDED=30 SCALE=1 REPEAT=${GRID_REPEAT:-2} BUDGET=120s
    RECORDSIZES=8K,16K,32K,64K,128K,1M COMPRESSIONS=off,lz4,zstd-1,zstd-3
fi

clean_up() {
    trap '' INT TERM
    "$MARIADB/server.sh" stop "$DB" >/dev/null 2>&1 || true
    [ -n "${BENCH_SCRATCH:-}" ] || rm -rf -- "$SCRATCH"
}
trap clean_up EXIT

if [ "$(id -u)" -ne 0 ]; then
    echo "BENCH-SKIP recording requires root"
    exit 0
fi
"$MARIADB/record.sh" "$DB" -o "$SCRATCH/t.parquet" --scale "$SCALE" --for "$SECONDS_RECORDED"

say "Tune"
BEGAN=$(date +%s.%N)
STATUS=0
"$PROGRAM" tune "$DB/data" --trace "$SCRATCH/t.parquet" --arc $ARC --budget $BUDGET --plan "$SCRATCH/plan.json" \
    --report "$SCRATCH/report.html" >"$SCRATCH/tune.txt" || STATUS=$?
TOOK=$(echo "$(date +%s.%N) $BEGAN" | awk '{ printf "%.1f", $1 - $2 }')
case $STATUS in 0 | 4) ;; *) die "$STATUS" "tune ended with status $STATUS" ;; esac
sed -n '1,12p' "$SCRATCH/tune.txt"

say "The grid, $REPEAT trials for each setting"
"$PROGRAM" replay "$SCRATCH/t.parquet" --application --arc $ARC --first 6s --repeat "$REPEAT" \
    -o "data:recordsize=$RECORDSIZES" -o "data:compression=$COMPRESSIONS" --json >"$SCRATCH/grid.json"
python3 "$(dirname -- "$0")/tune_figures.py" "$SCRATCH" "$TOOK"
