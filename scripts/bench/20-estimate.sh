#!/usr/bin/env bash
# Measures `poolwright estimate`: the speed of a full estimate relative to a bare loop over the same codecs, how often the interval of a
# sample contains the true value, and the time to sample a large data set that is not in the page cache. A test checks that full
# estimates equal zdb's counts (crates/estimate/tests/integration/databases.rs).
#
# usage: scripts/bench/20-estimate.sh
#
# Environment (default in parentheses):
#   ESTIMATE_SEEDS  samples of each mix of contents (200)
#   ESTIMATE_GIB    GiB of data in the large data set (20); it needs that much space in BENCH_SCRATCH
#   POOLWRIGHT      the program (target/release/poolwright); the tools of crates/devtools are expected beside it
#
# Exit status: 0 done; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

POOLWRIGHT=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
TOOLS=$(dirname -- "$POOLWRIGHT")
SEEDS=${ESTIMATE_SEEDS:-200}
GIB=${ESTIMATE_GIB:-20}
SPEED_RUNS=5
MIX_MIB=64
if [ "${BENCH_SMOKE:-0}" = 1 ]; then
    SEEDS=4 GIB=1 SPEED_RUNS=1 MIX_MIB=16
fi

OWN_SCRATCH=
if [ -z "${BENCH_SCRATCH:-}" ]; then
    BENCH_SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")
    OWN_SCRATCH=yes
fi

clean_up() {
    local status=$?
    trap - EXIT ERR
    rm -rf -- "$BENCH_SCRATCH/large" "$BENCH_SCRATCH/small" "$BENCH_SCRATCH/mixes"
    [ -z "$OWN_SCRATCH" ] || rm -rf -- "$BENCH_SCRATCH"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# figures SCRIPT FILE: runs the Python text SCRIPT on the JSON lines of FILE; it prints one BENCH line for each figure.
figures() {
    python3 -c '
import json, sys
def bench(name, value, unit, reference=None, ratio=None, bar=None, ok=None, **more):
    print("BENCH " + json.dumps(dict(name="estimate/" + name, value=value, unit=unit, reference=reference,
                                     ratio=ratio, bar=bar, **{"pass": ok}, **more)))
lines = [json.loads(line) for line in open(sys.argv[2]) if line.startswith("{")]
exec(sys.argv[1])' "$1" "$2"
}

say "== speed of a full estimate and of a bare loop over the same codecs, $SPEED_RUNS pairs of runs"
"$TOOLS/estimate-generate" "$BENCH_SCRATCH/small" 1
head -c 128M "$BENCH_SCRATCH/small/file000" >"$BENCH_SCRATCH/small/data"
"$TOOLS/estimate-speed" "$BENCH_SCRATCH/small/data" "$SPEED_RUNS" | tee "$BENCH_SCRATCH/speed.json"
figures 'm = lines[-1]
bench("codec speed", m["estimate_mib_s"], "MiB/s", m["bare_mib_s"], m["ratio"], ">= 0.90", m["ratio"] >= 0.9, processor_ratio=m["processor_ratio"])' \
    "$BENCH_SCRATCH/speed.json"
rm -rf -- "$BENCH_SCRATCH/small"

say "== intervals that contain the true value, of $SEEDS samples of each mix (the worst setting)"
"$TOOLS/estimate-coverage" "$BENCH_SCRATCH/mixes" "$SEEDS" "$MIX_MIB" | tee "$BENCH_SCRATCH/coverage.json"
figures 'for m in lines:
    share = m["held_worst"] / m["seeds"]
    bench("held, " + m["mix"], m["held_worst"], "of %d" % m["seeds"], m["seeds"], share, ">= 0.93", share >= 0.93,
          mean_held=m["held_mean"], places=m["places"])' "$BENCH_SCRATCH/coverage.json"

say "== time to ±1 % on $GIB GiB that are not in the page cache"
free_kib=$(df --output=avail -k "$BENCH_SCRATCH" | tail -n 1)
if [ "$free_kib" -lt $(((GIB + 2) * 1024 * 1024)) ]; then
    say "BENCH-SKIP estimate: not enough free space in $BENCH_SCRATCH for $GIB GiB of data"
    exit 0
fi
"$TOOLS/estimate-generate" "$BENCH_SCRATCH/large" "$GIB"
resident=$(fincore -b -n -o RES "$BENCH_SCRATCH"/large/* | awk '{ sum += $1 } END { print sum + 0 }')
"$POOLWRIGHT" estimate --json "$BENCH_SCRATCH/large" >"$BENCH_SCRATCH/large.json"
RESIDENT=$resident GIB=$GIB figures 'import os
m = lines[0]
ok = m["seconds"] < 15 and m["achieved"] <= 0.01 and m["ended"] == "done"
bench("time to within 1 %", round(m["seconds"], 2), "s", None, None, "< 15 s on 20 GiB", ok, gib=int(os.environ["GIB"]),
      achieved=m["achieved"], read_bytes=m["sampled_bytes"], cells=len(m["cells"]),
      in_page_cache_before=int(os.environ["RESIDENT"]))' "$BENCH_SCRATCH/large.json"
