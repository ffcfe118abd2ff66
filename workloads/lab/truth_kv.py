"""The key-value store of the driver `kv`, on the dataset `data`: updates and reads as in YCSB's A (`puts` = 0.5) and C (0)."""

import contextlib
import json
import signal
import subprocess
from pathlib import Path

from common import driver, jvm, server
from common.driver import Failure

PROGRAM = Path(__file__).resolve().parent / "kv"
# Number of entries at size 1: 250 MB of JSON.
ENTRIES = 800_000
SEED = 1
# A load of a fixed number of operations is ended after this many times the seconds that it was given.
PATIENCE = 5


def check():
    """Yields a line for each missing requirement."""
    yield from jvm.check("kv")


def prepare(spec, folder):
    """Prepares the store with all entries."""
    for line in run(spec, "load", folder / "data"):
        if "log" in line:
            driver.log(line["log"])


def load(spec):
    """Runs the store's measured phase, and prints its figures under the names that all workloads use."""
    clients, figures, count = spec.get("clients", 4), {}, 0
    # The process does its own warm-up. Its messages are passed on at once, because the counters are read when
    # they arrive.
    for line in run(spec, "mixed", spec.path("data"), **bounds(spec)):
        if "figure" in line:
            figures[line["figure"]["name"]] = line["figure"]["value"]
        elif "latency" in line:
            count += line["latency"]["count"]
            # With puts, the tail is that of the puts, which is longer.
            if line["latency"]["op"] in ("put", "get") and (line["latency"]["op"] == "put" or "p99" not in figures):
                figures["p99"] = line["latency"]
        else:
            driver.passed_on(line)
    rate = figures["operations_per_s"]
    driver.figure("work_per_s", rate, "1/s")
    driver.figure("work_done", count, "count")
    # The clients have no think time: each one always has one operation in progress.
    driver.figure("work_mean", clients / rate * 1e9, "ns")
    driver.passed_on({"latency": {**figures["p99"], "op": "work"}})


def bounds(spec):
    """Returns the limits of warm-up and measured part: seconds, or with `operations_per_s` the number of operations that a
    store with this rate performs in these seconds. A store merges its tables after a number of writes, so a faster setting
    would merge more in the same time; a fixed number of operations compares settings over the same merges."""
    warm, seconds, rate = spec.get("warm_s", 5.0), spec.get("seconds", 15.0), spec.get("operations_per_s", 0)
    if not rate:
        return {"warm_seconds": warm, "read_seconds": seconds, "reads": 1 << 40}
    return {"warm_seconds": PATIENCE * warm, "warm_reads": round(rate * warm),
            "read_seconds": PATIENCE * seconds, "reads": round(rate * seconds)}


def run(spec, phase, folder, **parameters):
    """Runs one phase of the driver `kv`; yields its lines."""
    engine = spec.get("engine", "rocksdb")
    given = {"engine": engine, "entries": max(1000, round(ENTRIES * spec.get("size", 1.0))),
             "data": "json", "threads": spec.get("clients", 4), "batch": 100, "memory": spec.get("memory", "64M"),
             f"{engine}.writebuffer.size": "8M", f"{engine}.poolsize": 0,
             # Compression is left to the file system.
             f"{engine}.compressiontype": 0,
             "heap": "256m", "puts": spec.get("puts", 0.5), "deletes": 0.0, **parameters}
    # The content of an entry depends on the seed, and the database was prepared only once.
    words = {"protocol": driver.PROTOCOL, "phase": phase, "parameters": given, "paths": {"db": str(folder)},
             "scratch": str(spec.scratch), "cache": str(spec.cache), "tools": str(spec.tools), "seed": SEED}
    with open(spec.scratch / "kv.log", "ab") as log, subprocess.Popen(
            [PROGRAM, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            preexec_fn=server.die_with_parent) as child:
        try:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(json.dumps(words))
                child.stdin.close()
            yield from map(json.loads, child.stdout)
        except BaseException:
            child.send_signal(signal.SIGTERM)
            raise
    if child.returncode:
        last = (spec.scratch / "kv.log").read_text(errors="replace").splitlines()[-2:]
        raise Failure(f"the driver kv exited with {child.returncode}: {' / '.join(last)}")
