"""Fills and runs a database of workloads/lab/truth_NAME.py for `truth.sh`, in directories instead of the lab's datasets.

usage: truth_lab.py fill NAME DIR [--size 1]
       truth_lab.py serve NAME DIR --scratch DIR [--size 1]
       truth_lab.py load NAME DIR --scratch DIR --seconds N [--size 1] [--clients 4]

DIR has a directory for each dataset. `serve` prints "ready" and runs until SIGTERM. `load` writes the end and the duration of each transaction
to standard output: 64-bit numbers, nanoseconds of the monotonic clock.
"""

import argparse
import array
import os
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workloads" / "lab"))
# pylint: disable=wrong-import-position
import truth_loads
from common import driver

ROLES = ("data", "log")


def specification(options, scratch):
    parameters = {"size": options.size, "clients": options.clients}
    paths = {role: str(options.dir / role) for role in ROLES}
    return driver.Spec({"protocol": driver.PROTOCOL, "phase": options.verb, "parameters": parameters, "paths": paths,
                        "scratch": str(scratch), "seed": 1})


def fill(options, workload):
    if missing := list(workload.check()):
        raise driver.Failure("; ".join(missing))
    for role in ROLES:
        (options.dir / role).mkdir(parents=True)
    # The path of a server's socket must be short.
    with tempfile.TemporaryDirectory() as scratch:
        workload.prepare(specification(options, Path(scratch)), options.dir)


def serve(options, workload):
    with workload.serving(specification(options, options.scratch)):
        print("ready", flush=True)
        while True:
            signal.pause()


def load(options, workload):
    with workload.Clients(specification(options, options.scratch), options.seconds) as clients:
        clients.finish()
        for pair in clients.transactions():
            os.write(1, array.array("q", pair).tobytes())


def main():
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("verb", choices=["fill", "serve", "load"])
    arguments.add_argument("name")
    arguments.add_argument("dir", type=Path)
    arguments.add_argument("--scratch", type=Path)
    arguments.add_argument("--size", type=float, default=1.0)
    arguments.add_argument("--seconds", type=float)
    arguments.add_argument("--clients", type=int, default=4)
    options = arguments.parse_args()
    # SystemExit makes each `with` block stop what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        {"fill": fill, "serve": serve, "load": load}[options.verb](options, truth_loads.workload_named(options.name))
    except driver.Failure as why:
        sys.exit(str(why))


if __name__ == "__main__":
    main()
