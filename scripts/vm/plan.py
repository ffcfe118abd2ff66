"""Prints a plan for a dataset: the example of docs/plan-format.md with another place, and @RECOMMENDED@ for the properties.

usage: plan.py MOUNTPOINT DATASET [DATABASE]
"""

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plan-format.md"


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    mountpoint, dataset, *database = sys.argv[1:]
    example = re.search(r"```json\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
    plan = json.loads(example.group(1))
    subject = {"directory": mountpoint, "file_system": "zfs", "dataset": dataset, "files": 1, "bytes": 1, "allocated_bytes": 1}
    if database:
        subject["database"] = database[0]
    plan["subject"] = subject
    plan["database"] = []
    plan.pop("confirmation", None)
    role = plan["roles"][0]
    role["place"] = {"mountpoint": mountpoint, "dataset": dataset, "separable": True}
    role["path"], role["paths"] = mountpoint, [mountpoint]
    role["current"] = {"recordsize": "128K", "compression": "lz4"}
    role["recommended"] = "@RECOMMENDED@"
    print(json.dumps(plan).replace('"@RECOMMENDED@"', "{@RECOMMENDED@}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
