"""Prints the figures of 50-replay.sh: the median ratio to the bare rate, and the result of the A/A runs, which it performs."""

import json
import os
import subprocess

scratch, runs, pairs = os.environ["SCRATCH"], int(os.environ["RUNS"]), os.environ["PAIRS"]
program = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(os.environ["POOLWRIGHT_ROOT"], "target")), "release/poolwright")


def bench(**row):
    print("BENCH " + json.dumps(row))


rate = [json.loads(line) for line in open(os.path.join(scratch, "rate.json"))]
median = rate[-1]
rounds = sorted(rate[:-1], key=lambda r: r["ratio"])
middle = rounds[len(rounds) // 2]
bench(name="replay/rate", value=middle["replay_ops_s"], unit="ops/s", reference=middle["bare_ops_s"],
      ratio=median["median_ratio"], bar=">= 0.80", low=median["low"], high=median["high"],
      **{"pass": median["median_ratio"] >= 0.80})

covered = 0
widths = []
for run in range(runs):
    out = subprocess.run(
        [program, "replay", os.path.join(scratch, "aa.parquet"), "-o", "recordsize=16K", "-o", "compression=lz4,lz4",
         "--repeat", pairs, "--device", "host", "--arc", "64M", "--warm", "0", "--seed", str(run + 1), "--json"],
        check=True, capture_output=True, text=True).stdout
    change = json.loads(out)["comparisons"][0]["changes"]["ops_s"]
    low, high = change["ci95"]
    inside = low <= 0 <= high
    covered += inside
    widths.append((high - low) / 2)
    print(f"  run {run + 1:2}: {change['change']:+.1%} ({low:+.1%} to {high:+.1%}){'' if inside else '  does not contain 0'}")
widths.sort()
need = (runs * 19) // 20
bench(name="replay/equal settings within the interval", value=covered, unit=f"of {runs}", reference=None, ratio=None,
      bar=f">= {need}", half_width=round(widths[len(widths) // 2], 4), **{"pass": covered >= need})
