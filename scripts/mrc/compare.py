"""Runs both programs on the same traces and prints their hit ratios side by side, for compare.sh.

usage: compare.py SCRATCH
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import traces

NEAR = 0.02  # percentage points


def ours(trace, model, sizes):
    words = [os.environ["POOLWRIGHT"], "mrc", trace, "--model", model, "--sizes", ",".join(map(str, sizes)), "--json"]
    curve = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    by_size = {point["cache_bytes"]: point["miss_ratio"] for point in curve["points"]}
    return [by_size[size] for size in sizes]


def theirs(trace, model, sizes, unit):
    script = Path(__file__).parent / "reference.py"
    words = [sys.executable, script, trace, model.upper(), str(os.cpu_count()), unit + str(sizes[0]), *map(str, sizes[1:])]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["miss_ratios"]


def table(name, model, unit, sizes, a, b):
    """Prints the hit ratios, and returns the largest difference in percentage points."""
    print(f"\n{name}, {model}: hit ratios in percent at eight sizes\n{unit:>10} {'poolwright':>12} {'libcachesim':>12} {'diff':>8}")
    for size, x, y in zip(sizes, a, b):
        print(f"{size:>10} {100 - 100 * x:>12.3f} {100 - 100 * y:>12.3f} {100 * abs(x - y):>8.4f}")
    return max(100 * abs(x - y) for x, y in zip(a, b))


def main():
    scratch = Path(sys.argv[1])
    generated = scratch / "generated.lis"
    runs = traces.generate()
    traces.write_lis(generated, runs)
    known = traces.found()
    for name in sorted({"OLTP", "P3"} - set(known)):
        print(f"skipped: {name}: no such trace in {os.environ['POOLWRIGHT_SHARED']}/data")

    differences = {}
    for name, lis in {**known, "generated": generated}.items():
        oracle = scratch / f"{name}.oracleGeneral"
        traces.write_oracle(oracle, traces.pages(traces.read_lis(lis)))
        sizes = traces.SIZES[name]
        for model in ("lru", "arc"):
            a = ours(lis, model, [size * traces.PAGE for size in sizes])
            b = theirs(oracle, model, sizes, "")
            differences[name, model] = table(name, model, "pages", sizes, a, b)

    objects = traces.pages(runs)
    sized = scratch / "sized.oracleGeneral"
    traces.write_oracle(sized, objects, 512 + objects * numpy.int64(2654435761) % 65536)
    sizes = [size * 32 * 1024 for size in traces.SIZES["generated"]]
    a, b = ours(sized, "lru", sizes), theirs(sized, "lru", sizes, "bytes:")
    differences["sized", "lru"] = table("objects of 512 to 66047 bytes", "lru", "bytes", sizes, a, b)

    worst = max(differences.values())
    print(f"\n{len(differences)} curves of eight sizes; the largest difference is {worst:.4f} percentage points (at most {NEAR})")
    sys.exit(worst > NEAR)


main()
