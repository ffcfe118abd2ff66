"""Prints the figures of 60-tune.sh: the rank of tune's recommendation for the data among all settings of the grid."""

import json
import math
import os
import statistics
import sys

scratch, took = sys.argv[1], float(sys.argv[2])
plan = json.load(open(os.path.join(scratch, "plan.json")))
runs = json.load(open(os.path.join(scratch, "grid.json")))["runs"]
weights = plan["goal"]["weights"]
smoke = os.environ.get("BENCH_SMOKE") == "1"


def key(settings):
    codec = settings.get("compression", "on")
    return settings.get("recordsize", "128K"), "lz4" if codec == "on" else codec


grid = {}
for run in runs:
    grid.setdefault(key(run["settings"]["data"]), []).append(run)


def median(cell, metric):
    # A higher work rate is better. Its reciprocal makes lower better for all metrics.
    values = {"allocated_bytes": lambda r: r["allocated_bytes"], "work_rate": lambda r: 1 / r["work_rate"],
              "write_amplification": lambda r: r["write_amplification"]}
    return statistics.median(values[metric](r) for r in grid[cell])


data = next(r for r in plan["roles"] if r["role"] == "data")
today = key(data["current"])
choice = key({**data["current"], **data["recommended"]})

if smoke and choice not in grid:
    print(f"BENCH-SKIP the short grid does not contain tune's recommendation, {choice[0]} {choice[1]}")
    sys.exit(0)


def objective(cell):
    return math.exp(sum(w * math.log(median(cell, m) / median(today, m)) for m, w in weights.items()))


ranked = sorted(grid, key=objective)
print("   rank  setting          objective   space MiB   work rate  write amp.")
for place, cell in enumerate(ranked, 1):
    mark = " <- tune" if cell == choice else " <- today" if cell == today else ""
    if place <= 8 or mark:
        print(f"  {place:5}  {cell[0]:>5} {cell[1]:<8} {objective(cell):10.3f}  {median(cell, 'allocated_bytes') / 2**20:9.1f}"
              f"  {1 / median(cell, 'work_rate'):9.3f}  {median(cell, 'write_amplification'):9.2f}{mark}")
best, chosen = objective(ranked[0]), objective(choice)
print("BENCH " + json.dumps({
    "name": "tune/recommendation against the best of the grid", "value": round(chosen, 4), "unit": "objective",
    "reference": round(best, 4), "ratio": round(chosen / best, 4), "bar": "<= 1.10", "pass": chosen <= 1.10 * best,
    "choice": " ".join(choice), "best": " ".join(ranked[0]), "place": ranked.index(choice) + 1, "cells": len(grid),
    "trials": plan["trials"]}))
print("BENCH " + json.dumps({
    "name": "tune/time after recording", "value": took, "unit": "s", "reference": None, "ratio": None, "bar": "<= 130",
    "pass": took <= 130}))
