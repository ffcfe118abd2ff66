"""Measures and prints the figures of 91-mrc-sample.sh."""

import json
import os
import subprocess
import time
from pathlib import Path

SMOKE = os.environ.get("BENCH_SMOKE") == "1"
SEEDS = int(os.environ.get("MRC_SEEDS") or (4 if SMOKE else 100))
MODELS = os.environ.get("MRC_MODELS") or "lru,arc,openzfs"
RATES = (os.environ.get("MRC_RATES") or "0.1,0.01").split(",")
REQUESTS = os.environ.get("MRC_REQUESTS") or ("10M" if SMOKE else "1G")
PAGE = 512
RECORD = 8192
GENERATED = {
    "zipf": "synthetic:zipf,records=200K,requests=2M,skew=0.9",
    "scan and zipf": "synthetic:zipf,records=200K,requests=2M,skew=1.0,scan=0.3,scan-records=5K,write=0.2,rate=10K",
    "loop": "synthetic:loop,records=100K,requests=2M",
    # Large enough for the openzfs model at a rate of 0.01.
    "large loop": "synthetic:loop,records=300K,requests=3M",
}
LIS_PAGES = {
    "OLTP": [500, 1000, 2000, 5000, 10000, 15000, 40000, 120000],
    "P3": [1024, 4096, 16384, 32768, 65536, 131072, 262144, 524288],
}
# OpenZFS accepts no smaller ARC (zfs_arc_max).
LEAST_ARC = 64 << 20
ONLY = set((os.environ.get("MRC_TRACES") or ",".join(["long", *LIS_PAGES, *GENERATED])).split(","))
GENERATED_RECORDS = [1000, 3000, 10000, 20000, 40000, 80000, 100000, 150000]
# Sizes near the length of each loop, in per cent, where the curve drops. The openzfs model drops slightly later, because it counts metadata.
EDGES = [80, 90, 95, 98, 99, 100, 101, 102, 103, 105, 110, 130]
AROUND = {"loop": [1000 * n for n in EDGES], "large loop": [3000 * n for n in EDGES]}


def bench(name, value, unit, bar=None, ok=None, **more):
    row = dict(name="mrc sample/" + name, value=value, unit=unit, reference=None, ratio=None, bar=bar, **more)
    print("BENCH " + json.dumps({**row, "pass": ok}), flush=True)


def run(trace, sizes, *options, models=MODELS):
    """The curves, and the peak memory of the process in MiB."""
    command = [os.environ["POOLWRIGHT"], "mrc", trace, "--model", models, "--sizes", ",".join(map(str, sizes)), "--json",
             "--no-prefetch", *options]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return json.loads(out)["curves"], usage.ru_maxrss / 1024


def mrc(trace, sizes, *options):
    """The curves of all models; that of openzfs only at sizes that an ARC can have."""
    large = [size for size in sizes if size >= LEAST_ARC]
    others = [model for model in MODELS.split(",") if model != "openzfs"]
    curves = run(trace, sizes, *options, models=",".join(others))[0] if others else []
    if large and "openzfs" in MODELS.split(","):
        curves += run(trace, large, *options, models="openzfs")[0]
    return curves


def median(values):
    return sorted(values)[len(values) // 2]


def coverage(name, trace, sizes):
    """Prints a figure for each model and rate: the share of samples whose confidence interval contains the exact miss ratio, at the
    cache size with the lowest share."""
    exact = {curve["model"]: {p["cache_bytes"]: p["miss_ratio"] for p in curve["points"]} for curve in mrc(trace, sizes)}
    for rate in RATES:
        inside, widths = {}, {}
        for seed in range(SEEDS):
            for curve in mrc(trace, sizes, "--sample", rate, "--seed", str(seed)):
                for point in curve["points"]:
                    at = (curve["model"], point["cache_bytes"])
                    low, high = point["confidence"]["low"], point["confidence"]["high"]
                    inside[at] = inside.get(at, 0) + (low <= exact[at[0]][at[1]] <= high)
                    widths.setdefault(at, []).append(100 * (high - low))
        for model in exact:
            sizes_found = sorted(bytes for of, bytes in inside if of == model)
            for bytes in sizes_found:
                at = (model, bytes)
                print(f"  {name}, {model}, {rate}: {bytes >> 10:>7} KiB, {100 * exact[model][bytes]:6.2f} % misses, "
                      f"inside {inside[at]} of {len(widths[at])}, median width {median(widths[at]):.2f} points")
            if not sizes_found:
                continue
            # Near the smallest size that a sample supports, only some samples have a point.
            least = min(inside[model, bytes] / len(widths[model, bytes]) for bytes in sizes_found)
            every = [width for bytes in sizes_found for width in widths[model, bytes]]
            bench(f"inside the interval, {name}, {model}, rate {rate}", round(100 * least, 1), "of 100 seeds", ">= 95",
                  least >= 0.95, seeds=SEEDS, sizes=len(sizes_found), median_width_points=round(median(every), 2))


def long(name, options, models):
    trace = f"synthetic:zipf,records=100M,requests={REQUESTS},skew=0.9,scan=0.1,seed=1"
    began = time.monotonic()
    curves, peak = run(trace, [1 << n for n in range(30, 40)], *options, models=models)
    seconds = time.monotonic() - began
    for curve in curves:
        for point in curve["points"]:
            interval = point.get("confidence")
            within = f", interval {100 * interval['low']:.2f} to {100 * interval['high']:.2f}" if interval else ""
            print(f"  {curve['model']}: {point['cache_bytes'] >> 20:>7} MiB, {100 * point['miss_ratio']:6.2f} % misses{within}")
    rate = curves[0].get("sample", {"rate": 1})["rate"]
    requests = curves[0]["requests"]
    bench(f"{REQUESTS} requests, {name}", round(seconds, 1), "s", "<= 180", seconds <= 180, rate=rate,
          requests_per_second=round(requests / seconds))
    bench(f"memory for {REQUESTS} requests, {name}", round(peak, 1), "MiB", "<= 1024", peak <= 1024, rate=rate)


def main():
    if "long" in ONLY:
        long("at a rate of 0.001", ["--sample", "0.001"], MODELS)
        long("in 256M", ["--sample-memory", "256M"], "lru")
    data = Path(os.environ["POOLWRIGHT_SHARED"]) / "data"
    for name in filter(ONLY.__contains__, LIS_PAGES):
        trace = data / f"arc-{name}.lis.zst"
        if trace.exists():
            coverage(name, trace, [count * PAGE for count in LIS_PAGES[name]])
        else:
            print(f"skipped: {name}: {trace} does not exist")
    for name in filter(ONLY.__contains__, GENERATED):
        coverage(name, GENERATED[name], [count * RECORD for count in sorted({*GENERATED_RECORDS, *AROUND.get(name, [])})])


main()
