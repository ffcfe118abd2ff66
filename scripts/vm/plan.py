"""Prints a plan for a dataset: docs/examples/plan.json with another place, and @RECOMMENDED@ for the properties.

usage: plan.py MOUNTPOINT DATASET [--database NAME] [--log DIRECTORY]

--log adds a role: the directory in the mount point moves into a dataset of its own, with recordsize=64K and logbias=throughput.
"""

import argparse
import copy
import json
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "plan.json"


def log_role(data, mountpoint, dataset, name):
    """The role of the log, which has no dataset of its own yet."""
    role = copy.deepcopy(data)
    link = f"{mountpoint}/{name}"
    role["role"] = "wal"
    role["place"] = {
        "mountpoint": f"{mountpoint}-wal",
        "dataset": dataset,
        "separable": True,
        "how": f"{name} as a symbolic link",
        "link": link,
    }
    role["path"], role["paths"] = link, [link]
    role["recommended"] = {"recordsize": "64K", "logbias": "throughput"}
    role["together_with"] = []
    return role


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("mountpoint")
    parser.add_argument("dataset")
    parser.add_argument("--database")
    parser.add_argument("--log")
    options = parser.parse_args()
    mountpoint, dataset = options.mountpoint, options.dataset
    plan = json.loads(EXAMPLE.read_text())
    subject = {"directory": mountpoint, "file_system": "zfs", "dataset": dataset, "files": 1, "bytes": 1, "allocated_bytes": 1}
    if options.database:
        subject["database"] = options.database
    plan["subject"] = subject
    plan["database"] = []
    role = plan["roles"][0]
    role["place"] = {"mountpoint": mountpoint, "dataset": dataset, "separable": True}
    role["path"], role["paths"] = mountpoint, [mountpoint]
    role["current"] = {"recordsize": "128K", "compression": "lz4"}
    plan["roles"] = [role]
    if options.log:
        plan["roles"].append(log_role(role, mountpoint, dataset, options.log))
    role["recommended"] = "@RECOMMENDED@"
    print(json.dumps(plan).replace('"@RECOMMENDED@"', "{@RECOMMENDED@}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
