#!/usr/bin/env python3
"""Compares the verdicts of two runs of a campaign.

usage: scripts/lab/verdicts.py FIRST.json SECOND.json [FIRST.json SECOND.json...]

The files are the output of `poolwright lab report --json`, in pairs. Prints each statement whose verdicts differ, and counts.

Exit status: 0 if at least 98 % of the statements that both runs decide have equal verdicts, 1 if fewer, 2 wrong usage.
"""

import json
import sys
from pathlib import Path

DECIDED = {"agrees", "does-not-agree", "equal"}
LEAST = 0.98


def verdicts(path):
    """Returns the verdict of each statement of a report, by study and text."""
    studies = json.loads(Path(path).read_text())["studies"]
    return {(study["name"], claim["text"]): claim["verdict"] for study in studies for claim in study["claims"]}


def compare(first, second):
    """Returns the statements that both runs have, those that both decide, and those of the latter whose verdicts differ."""
    shared = [key for key in first if key in second]
    both = [key for key in shared if first[key] in DECIDED and second[key] in DECIDED]
    return shared, both, [key for key in both if first[key] != second[key]]


def main(paths):
    if not paths or len(paths) % 2:
        print(__doc__, file=sys.stderr)
        return 2
    statements, decided, differing = 0, 0, 0
    for first, second in zip(paths[::2], paths[1::2], strict=True):
        one, two = verdicts(first), verdicts(second)
        shared, both, differ = compare(one, two)
        for key in differ:
            print(f"  {key[0]}: {key[1]}: {one[key]}, then {two[key]}")
        statements, decided, differing = statements + len(shared), decided + len(both), differing + len(differ)
    print(f"  {statements} statements; both runs decide {decided}, with equal verdicts in {decided - differing}")
    return int(decided - differing < LEAST * decided)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
