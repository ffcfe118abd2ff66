"""Prints the figures of 60-tune.sh: where tune's recommendation is among all settings of the grid, and which of the best it tried."""

import json
import math
import os
import sys

scratch, took = sys.argv[1], float(sys.argv[2])
plan = json.load(open(os.path.join(scratch, "plan.json")))
runs = json.load(open(os.path.join(scratch, "grid.json")))["runs"]
weights = plan["goal"]["weights"]
# The properties of the grid, with OpenZFS's defaults.
DEFAULTS = {"recordsize": "128K", "compression": "lz4", "logbias": "latency", "primarycache": "all", "prefetch": "all", "direct": "standard"}
# The search leaves out a property that brings less than this factor (crates/tune/src/race.rs).
EQUAL = 1.03
BEST = 3


def key(settings):
    values = {**DEFAULTS, **{name: value for name, value in settings.items() if name in DEFAULTS}}
    values["compression"] = {"on": "lz4"}.get(values["compression"], values["compression"])
    return tuple(values.values())


def text(cell):
    return " ".join(value for value, default in zip(cell, DEFAULTS.values()) if value != default or default in ("128K", "lz4"))


def p99(run, kinds):
    return max((of["p99"] for kind, of in run["latency_ns"].items() if kind in kinds), default=0)


# A higher work rate is better. Its reciprocal makes lower better for all metrics.
METRICS = {"allocated_bytes": lambda r: r["allocated_bytes"], "work_rate": lambda r: 1 / r["work_rate"],
           "write_amplification": lambda r: r["write_amplification"], "cpu_ns_per_op": lambda r: r["cpu_seconds"] / r["ops"]}
grid = {key(next(iter(run["settings"].values()))): run for run in runs}
role = max((r for r in plan["roles"] if r.get("replayed")), key=lambda r: r["bytes"])
today = key(role["current"])
choice = key({**role["current"], **role["recommended"]})
for cell in (today, choice):
    if cell not in grid:
        print(f"BENCH-SKIP the grid does not contain {text(cell)}")
        sys.exit(0)


def is_allowed(cell):
    """The limits of the goal: 5 % of the work rate, 10 % of the 99th percentiles of reads and syncs."""
    run, now = grid[cell], grid[today]
    slow = [p99(run, kinds) > 1.1 * p99(now, kinds) for kinds in (["read"], ["fsync"])]
    return run["work_rate"] >= 0.95 * now["work_rate"] and not any(slow)


def objective(cell):
    return math.exp(sum(w * math.log(METRICS[m](grid[cell]) / METRICS[m](grid[today])) for m, w in weights.items()))


ranked = sorted(filter(is_allowed, grid), key=objective)
print("   rank  objective   space MiB   work rate  write amp.  setting")
for place, cell in enumerate(ranked, 1):
    mark = " <- tune" if cell == choice else " <- today" if cell == today else ""
    if place <= 8 or mark:
        run = grid[cell]
        print(f"  {place:5}  {objective(cell):9.3f}  {run['allocated_bytes'] / 2**20:10.1f}"
              f"  {run['work_rate']:9.3f}  {run['write_amplification']:9.2f}   {text(cell)}{mark}")
best, chosen = objective(ranked[0]), objective(choice)
tried = {key({**role["current"], **e["settings"]}) for e in role["evidence"] if e["kind"] == "trial"} & set(grid)


def is_found(cell):
    """Whether tune tried a setting with the same record size and codec whose other properties cost less than EQUAL."""
    return any(other[:2] == cell[:2] and objective(other) <= EQUAL * objective(cell) for other in tried)


found = sum(is_found(cell) for cell in ranked[:BEST])
best_tried = min((objective(cell) for cell in tried if is_allowed(cell)), default=math.inf)
print("BENCH " + json.dumps({
    "name": "tune/recommendation against the best of the grid", "value": round(chosen, 4), "unit": "objective",
    "reference": round(best, 4), "ratio": round(chosen / best, 4), "bar": "<= 1.10 and within the limits of the goal",
    "pass": chosen <= 1.10 * best and is_allowed(choice), "choice": text(choice), "allowed": is_allowed(choice), "best": text(ranked[0]), "cells": len(grid), "trials": plan["trials"]}))
print("BENCH " + json.dumps({
    "name": f"tune/of the best {BEST} of the grid, those that it tried, but for properties that bring less than {EQUAL - 1:.0%}",
    "value": found, "unit": "settings", "reference": BEST, "ratio": round(found / BEST, 2), "bar": f"= {BEST}", "pass": found == BEST,
    "tried": len(tried), "tried themselves": sum(cell in tried for cell in ranked[:BEST]), "best tried": round(best_tried, 4)}))
print("BENCH " + json.dumps({
    "name": "tune/time after recording", "value": took, "unit": "s", "reference": None, "ratio": None, "bar": "<= 130",
    "pass": took <= 130}))
