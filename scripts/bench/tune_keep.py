"""Prints the figures of 61-tune-keep.sh: how many plans keep the current settings, and how much worse the worst recommendation of a
disturbed run is."""

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

KEEPS = 0.95
# The largest allowed ratio of a recommendation's objective to that of the current settings.
WORSE = 1.05
TRIALS = 4


def main_role(plan):
    """The role whose settings were raced against each other."""
    return next((r for r in plan["roles"] if r["role"] == "data"), plan["roles"][0])


def today_options(plan):
    """Prints the options of `tune` that declare the plan's recommended settings as the current ones, one argument on each line."""
    role = main_role(plan)
    wanted = {**role["current"], **role["recommended"]}
    for key, value in wanted.items():
        print("-o")
        print(f"{key}={value}")


def changed(plan):
    """The recommended changes of each role."""
    return {r["role"]: r["recommended"] for r in plan["roles"] if r["recommended"]}


def objective(program, scratch, plan):
    """Replays the recommended and the current settings; returns the objective."""
    rates = {}
    # A plan also has the roles of files that the database did not use while it was recorded.
    recorded = json.loads(subprocess.run([program, "trace", "show", scratch / "t.parquet", "--json"], stdout=subprocess.PIPE,
                                         check=True).stdout)["roles"]
    for name in ("today", "new"):
        command = [program, "replay", scratch / "t.parquet", "--application", "--arc", "128M", "--device", "nvme", "--for", "6s",
                 "--repeat", str(TRIALS), "--json"]
        for role in (role for role in plan["roles"] if role["role"] in recorded):
            settings = {**role["current"], **(role["recommended"] if name == "new" else {})}
            command += [word for key, value in settings.items() for word in ("-o", f"{role['role']}:{key}={value}")]
        runs = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["runs"]
        rates[name] = {"allocated_bytes": statistics.median(r["allocated_bytes"] for r in runs),
                       "work_rate": 1 / statistics.median(r["work_rate"] for r in runs),
                       "write_amplification": statistics.median(r["write_amplification"] for r in runs)}
    weights = plan["goal"]["weights"]
    return math.exp(sum(w * math.log(rates["new"][m] / rates["today"][m]) for m, w in weights.items()))


def figures(scratch, program, runs, disturbed):
    """Prints both figures."""
    plans = {name: [json.loads((scratch / f"{name}{n}.json").read_text()) for n in range(1, count + 1)]
             for name, count in (("quiet", runs), ("disturbed", disturbed))}
    kept = sum(not changed(plan) for plan in plans["quiet"])
    for name, of in plans.items():
        for number, plan in enumerate(of, 1):
            print(f"  {name} {number}: {plan['verdict']} {changed(plan) or ''}")
    bench("tune/keeps settings that need no change", kept, "runs", runs, kept / runs, f">= {KEEPS}", kept >= KEEPS * runs)
    worst = max((objective(program, scratch, plan) for plan in plans["disturbed"] if changed(plan)), default=1.0)
    bench("tune/worst recommendation on a disturbed machine", round(worst, 4), "objective", 1.0, round(worst, 4), f"<= {WORSE}",
          worst <= WORSE)


def bench(name, value, unit, reference, ratio, bar, passed):
    """Prints the line of a figure."""
    print("BENCH " + json.dumps({"name": name, "value": value, "unit": unit, "reference": reference, "ratio": ratio, "bar": bar,
                                 "pass": passed}))


if __name__ == "__main__":
    if sys.argv[1] in ("today", "keeps"):
        of = json.loads(Path(sys.argv[2]).read_text())
        if sys.argv[1] == "keeps":
            sys.exit(1 if changed(of) else 0)
        today_options(of)
    else:
        figures(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
