#!/usr/bin/env bash
# Replay: its rate against the engine's bare calls, and whether equal settings are told apart (they must not be).
#
# usage: scripts/bench/50-replay.sh
#
# A/A: twenty runs of five interleaved pairs of the same setting; the printed 95 % interval of the change in operations
# per second has to hold 0 in nineteen of them. BENCH_SMOKE=1 makes it quick.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
[ -n "${BENCH_SCRATCH:-}" ] || trap 'rm -rf -- "$SCRATCH"' EXIT
if [ "${BENCH_SMOKE:-0}" = 1 ]; then ROUNDS=2 RUNS=2 PAIRS=3; else ROUNDS=9 RUNS=20 PAIRS=5; fi
export ROUNDS RUNS PAIRS SCRATCH

say "Replay against the engine's bare rate, $ROUNDS rounds, either first in turn"
"$POOLWRIGHT_ROOT/target/release/replay-rate" "$ROUNDS" | tee "$SCRATCH/rate.json"

say "A/A: $RUNS runs of $PAIRS pairs of one setting against itself"
fio --name=aa --filename="$SCRATCH/aa.dat" --size=48M --rw=randrw --rwmixread=70 --bs=16k --ioengine=psync \
    --fdatasync=100 --io_size=96M --refill_buffers --buffer_compress_percentage=50 --write_iolog="$SCRATCH/aa.log" \
    >"$SCRATCH/fio.log"
"$POOLWRIGHT_ROOT/target/release/poolwright" trace import "$SCRATCH/aa.log" -o "$SCRATCH/aa.parquet" >/dev/null
python3 "$(dirname -- "$0")/replay_figures.py"
