#!/usr/bin/env bash
# The estimator: speed of a full one against a bare loop of the same codecs, how often a sample's interval holds the
# truth, and how long a sample of a large data set takes that is not in the page cache. That full estimates equal
# what zdb counts is a test (crates/estimate/tests/databases.rs).
#
# usage: scripts/bench/20-estimate.sh
#
# ESTIMATE_SEEDS (200) samples per mix of content; ESTIMATE_GIB (20) of data, which need room in BENCH_SCRATCH.
# POOLWRIGHT names another binary than target/release/poolwright; the tools (crates/devtools) lie beside it.
# Exit status: 0 done; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

POOLWRIGHT=${POOLWRIGHT:-$POOLWRIGHT_ROOT/target/release/poolwright}
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

# figures SCRIPT FILE: one BENCH line for each figure that the Python in SCRIPT makes of FILE's JSON lines.
figures() {
    python3 -c '
import json, sys
def bench(name, value, unit, reference=None, ratio=None, bar=None, ok=None, **more):
    print("BENCH " + json.dumps(dict(name="estimate/" + name, value=value, unit=unit, reference=reference,
                                     ratio=ratio, bar=bar, **{"pass": ok}, **more)))
lines = [json.loads(line) for line in open(sys.argv[2]) if line.startswith("{")]
exec(sys.argv[1])' "$1" "$2"
}

say "== a full estimate beside a bare loop of the same codecs, $SPEED_RUNS pairs of runs"
"$TOOLS/estimate-generate" "$BENCH_SCRATCH/small" 1
head -c 128M "$BENCH_SCRATCH/small/file000" >"$BENCH_SCRATCH/small/data"
"$TOOLS/estimate-speed" "$BENCH_SCRATCH/small/data" "$SPEED_RUNS" | tee "$BENCH_SCRATCH/speed.json"
figures 'm = lines[-1]
bench("codec speed", m["estimate_mib_s"], "MiB/s", m["bare_mib_s"], m["ratio"], ">= 0.90", m["ratio"] >= 0.9, processor_ratio=m["processor_ratio"])' \
    "$BENCH_SCRATCH/speed.json"
rm -rf -- "$BENCH_SCRATCH/small"

say "== intervals that hold the truth, of $SEEDS samples of each mix (the worst setting)"
"$TOOLS/estimate-coverage" "$BENCH_SCRATCH/mixes" "$SEEDS" "$MIX_MIB" | tee "$BENCH_SCRATCH/coverage.json"
figures 'for m in lines:
    share = m["held_worst"] / m["seeds"]
    bench("held, " + m["mix"], m["held_worst"], "of %d" % m["seeds"], m["seeds"], share, ">= 0.93", share >= 0.93,
          mean_held=m["held_mean"], places=m["places"])' "$BENCH_SCRATCH/coverage.json"

say "== ±1 % on $GIB GiB that are not in the page cache"
free_kib=$(df --output=avail -k "$BENCH_SCRATCH" | tail -n 1)
if [ "$free_kib" -lt $(((GIB + 2) * 1024 * 1024)) ]; then
    say "BENCH-SKIP estimate: $GIB GiB of data need more room than there is in $BENCH_SCRATCH"
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
