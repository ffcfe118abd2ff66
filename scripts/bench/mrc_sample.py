"""Measures and prints the figures of 91-mrc-sample.sh."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).parent.parent / "mrc"))
import traces  # noqa: E402

SMOKE = os.environ.get("BENCH_SMOKE") == "1"
SEEDS = int(os.environ.get("MRC_SEEDS") or (4 if SMOKE else 100))
MODELS = os.environ.get("MRC_MODELS") or "lru,arc,openzfs"
RATES = (os.environ.get("MRC_RATES") or "0.1,0.01").split(",")
MILLIONS = int(os.environ.get("MRC_MILLIONS") or (10 if SMOKE else 100))
# OpenZFS accepts no smaller ARC (zfs_arc_max).
LEAST_ARC = 64 << 20
ONLY = set((os.environ.get("MRC_TRACES") or ",".join(["long", *traces.SIZES])).split(","))


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


def popular(rng, records, requests, skew=0.9):
    """Numbers of records whose popularity follows Zipf's law, by inversion of its continuous form."""
    return (records * rng.random(requests) ** (1 / (1 - skew))).astype(numpy.uint64)


def long_trace(records=100_000_000):
    """Writes a trace of `MILLIONS` requests for objects of 8K, of which a tenth are a scan of all records."""
    path, part = Path("long.oracleGeneral"), Path("part.oracleGeneral")
    rng = numpy.random.default_rng(1)
    with path.open("wb") as out:
        for n in range(MILLIONS):
            objects = popular(rng, records, 1_000_000)
            objects[::10] = numpy.arange(n * 100_000, (n + 1) * 100_000) % records
            traces.write_oracle(part, objects, 8192)
            out.write(part.read_bytes())
    part.unlink()
    return path


def long(trace, name, options, models):
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
    bench(f"{MILLIONS} million requests, {name}", round(seconds, 1), "s", "<= 180", seconds <= 180, rate=rate,
          requests_per_second=round(requests / seconds))
    bench(f"memory for {MILLIONS} million requests, {name}", round(peak, 1), "MiB", "<= 1024", peak <= 1024, rate=rate)


def main():
    if "long" in ONLY:
        trace = long_trace()
        long(trace, "at a rate of 0.001", ["--sample", "0.001"], MODELS)
        long(trace, "in 256M", ["--sample-memory", "256M"], "lru")
        trace.unlink()
    generated = Path("generated.lis").absolute()
    traces.write_lis(generated, traces.generate(2_000_000))
    known = {**traces.found(), "generated": generated}
    for name, pages in traces.SIZES.items():
        if name in ONLY & known.keys():
            coverage(name, known[name], [count * traces.PAGE for count in pages])
        elif name in ONLY:
            print(f"skipped: {name}: there is no arc-{name}.lis.zst in {os.environ['POOLWRIGHT_SHARED']}/data")


main()
