#!/usr/bin/env bash
# Measures how often `tune` keeps settings that need no change, on a quiet machine and on a disturbed one. Records MariaDB, applies the
# recommendations of `tune` with a long budget until it says keep, then runs `tune` repeatedly with these settings as the current ones. A
# recommendation of a disturbed run is replayed on the quiet machine: it must not be worse than the current settings.
#
# usage: scripts/bench/61-tune-keep.sh
#
# Environment (default in parentheses):
#   RUNS       runs on the quiet machine (20)
#   DISTURBED  runs on the disturbed machine (5)
#   BUDGET     time budget of each of these runs (40s)
#   ROUNDS     most recommendations to apply before them (4)
# With BENCH_SMOKE=1, one of each.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
MARIADB=$POOLWRIGHT_ROOT/workloads/mariadb
DB=$SCRATCH/db
PROGRAM=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright
DISTURBERS=()
if [ "${BENCH_SMOKE:-0}" = 1 ]; then
    RUNS=1 DISTURBED=1 ROUNDS=1 BUDGET=25s FIRST=25s SCALE=0.2
else
    RUNS=${RUNS:-20} DISTURBED=${DISTURBED:-5} ROUNDS=${ROUNDS:-4} BUDGET=${BUDGET:-40s} FIRST=120s SCALE=1
fi

clean_up() {
    trap '' INT TERM
    quiet
    "$MARIADB/server.sh" stop "$DB" >/dev/null 2>&1 || true
    [ -n "${BENCH_SCRATCH:-}" ] || rm -rf -- "$SCRATCH"
}
trap clean_up EXIT

# tune NAME BUDGET SEED [OPTION...]: runs `tune`; writes the plan to NAME.json.
tune() {
    local name=$1 budget=$2 seed=$3 status=0
    shift 3
    "$PROGRAM" tune "$DB/data" --trace "$SCRATCH/t.parquet" --arc 128M --device nvme --budget "$budget" --seed "$seed" "$@" \
        --plan "$SCRATCH/$name.json" --report "$SCRATCH/$name.html" >"$SCRATCH/$name.txt" 2>&1 || status=$?
    case $status in 0 | 4) ;; *) cat "$SCRATCH/$name.txt" >&2; die "$status" "tune ended with status $status" ;; esac
}

# Starts a periodic load: 3 s on all CPUs, then 4 s idle.
disturb() {
    for _ in $(seq "$(nproc)"); do
        setsid bash -c 'while :; do timeout --foreground 3 sh -c "while :; do :; done"; sleep 4; done' &
        DISTURBERS+=("$!")
    done
}

# Stops the load.
quiet() {
    local pid
    for pid in ${DISTURBERS[@]+"${DISTURBERS[@]}"}; do
        end_group "$pid" 2
        wait "$pid" 2>/dev/null || true
    done
    DISTURBERS=()
}

if [ "$(id -u)" -ne 0 ]; then
    echo "BENCH-SKIP recording requires root"
    exit 0
fi
"$MARIADB/record.sh" "$DB" -o "$SCRATCH/t.parquet" --scale "$SCALE" --for 10

say "Search for the settings that the runs below use as the current ones"
TODAY=()
for round in $(seq "$ROUNDS"); do
    tune "best$round" "$FIRST" "$((100 + round))" ${TODAY[@]+"${TODAY[@]}"}
    OPTIONS=$(python3 "$(dirname -- "$0")/tune_keep.py" today "$SCRATCH/best$round.json")
    mapfile -t TODAY <<<"$OPTIONS"
    say "  ${TODAY[*]}"
    if python3 "$(dirname -- "$0")/tune_keep.py" keeps "$SCRATCH/best$round.json"; then break; fi
done
say "$RUNS runs with ${TODAY[*]}"
for run in $(seq "$RUNS"); do
    tune "quiet$run" "$BUDGET" "$run" "${TODAY[@]}"
done
say "$DISTURBED runs on a disturbed machine"
for run in $(seq "$DISTURBED"); do
    disturb
    tune "disturbed$run" "$BUDGET" "$run" "${TODAY[@]}"
    quiet
done
python3 "$(dirname -- "$0")/tune_keep.py" figures "$SCRATCH" "$PROGRAM" "$RUNS" "$DISTURBED"
