#!/usr/bin/env python3
"""Compares the reports (`lab report --json`) of one campaign on a cluster and on this machine.

usage: compare.py CLUSTER.json LOCAL.json

Space does not depend on the machine: its medians must be equal. Rates depend on how many trials run at once, so their medians are only
printed, but a setting's effect does not: the intervals of the ratios to the first level must overlap.

Exit status: 0 equal within the intervals (and 3 %), 1 different.
"""

import json
import sys

# The intervals of equal quantities do not overlap in one of 200 cases. This share more makes that negligible for figures that vary by 1 %.
SLACK = 0.03
EXACT = ("allocated.data", "ratio.data")


def rows(report):
    """(study, case, measure) -> figure"""
    return {
        (study["name"], row["label"], figure["measure"]): figure
        for study in report["studies"]
        for row in study["rows"]
        for figure in row["figures"]
    }


def effects(report):
    """(study, measure, to) -> effect"""
    return {
        (study["name"], effect["measure"], effect["to"]): effect
        for study in report["studies"]
        for effect in study["effects"]
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    cluster, local = (json.load(open(path)) for path in sys.argv[1:])
    wrong = []
    a, b = rows(cluster), rows(local)
    if a.keys() != b.keys() or not a:
        wrong.append("the tables have different rows")
    for key in sorted(a.keys() & b.keys()):
        x, y = a[key], b[key]
        print(f"  {' · '.join(key)}: cluster {x['median']:.6g}, local {y['median']:.6g} {x['unit']}, {len(x['values'])} and {len(y['values'])} trials")
        if len(x["values"]) != len(y["values"]):
            wrong.append(f"{key}: another number of trials")
        if key[2] in EXACT and x["median"] != y["median"]:
            wrong.append(f"{key}: {x['median']} is not {y['median']}")
    a, b = effects(cluster), effects(local)
    if a.keys() != b.keys() or not a:
        wrong.append("the reports have different effects")
    for key in sorted(a.keys() & b.keys()):
        (low, high), (other_low, other_high) = a[key]["ci95"], b[key]["ci95"]
        print(f"  effect {' · '.join(key)}: cluster {low:.4f} to {high:.4f}, local {other_low:.4f} to {other_high:.4f}")
        if low > other_high * (1 + SLACK) or high * (1 + SLACK) < other_low:
            wrong.append(f"effect {key}: the intervals do not overlap")
    for line in wrong:
        print(f"  different: {line}")
    sys.exit(1 if wrong else 0)


main()
