#!/usr/bin/env bash
# Measures `poolwright replay`: its rate relative to bare calls of the engine, and an A/A test, in which equal settings must not differ.
#
# usage: scripts/bench/50-replay.sh
#
# The A/A test has twenty runs of five interleaved pairs of the same setting. In nineteen of them, the printed 95 % interval of the change
# in operations per second must contain 0. BENCH_SMOKE=1 shortens the bench.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
[ -n "${BENCH_SCRATCH:-}" ] || trap 'rm -rf -- "$SCRATCH"' EXIT
if [ "${BENCH_SMOKE:-0}" = 1 ]; then ROUNDS=2 RUNS=2 PAIRS=3; else ROUNDS=9 RUNS=20 PAIRS=5; fi
export ROUNDS RUNS PAIRS SCRATCH

say "Rate of a replay relative to bare calls of the engine, $ROUNDS rounds in alternating order"
"${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/replay-rate" "$ROUNDS" | tee "$SCRATCH/rate.json"

say "A/A: $RUNS runs of $PAIRS pairs of the same setting"
fio --name=aa --filename="$SCRATCH/aa.dat" --size=48M --rw=randrw --rwmixread=70 --bs=16k --ioengine=psync \
    --fdatasync=100 --io_size=96M --refill_buffers --buffer_compress_percentage=50 --write_iolog="$SCRATCH/aa.log" \
    >"$SCRATCH/fio.log"
"${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright" trace import "$SCRATCH/aa.log" -o "$SCRATCH/aa.parquet" >/dev/null
python3 "$(dirname -- "$0")/replay_figures.py"
