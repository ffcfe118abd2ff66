"""Runs sysbench on the shop of workloads/mariadb, and parses its output."""

import os
import re

from common import driver, server
from common.driver import Failure
from innodb_server import MARIADB

# A line of the histogram: "      4.177 |********************   1234"; short bars are omitted.
BUCKET = re.compile(r"^\s*(\d+\.\d+) \|\**\s+(\d+)\s*$")


def sysbench(mariadb, name, mix, threads, seconds, rate, seed, events=0):
    """Returns the load as a server that is not started yet. `mix` is all, reads or writes; `rate` 0 is unlimited. The load
    ends after `seconds` or after `events`; 0 is unlimited."""
    load = server.Server(name, [
        "sysbench", MARIADB / "oltp.lua", "--db-driver=mysql", f"--mysql-socket={mariadb.socket}", "--mysql-user=root",
        "--mysql-db=shop", f"--threads={threads}", f"--time={seconds}", f"--events={events}", f"--rate={rate}", f"--seed={seed}",
        f"--rand-seed={seed + 1}", "--rand-type=pareto", f"--mix={mix}", "--histogram=on", "run",
    ], mariadb.folder, env={**os.environ, "LUA_PATH": f"{MARIADB}/?.lua;;"})
    load.log_path.unlink(missing_ok=True)
    return load


def finish(load):
    """Waits for the end of the load. Returns (transactions, transactions per second, latencies)."""
    status = load.process.wait()
    text = load.log_path.read_text(errors="replace")
    # sysbench exits with status 0 even if a thread fails; then the summary is missing, or there is a message.
    if status != 0 or "FATAL" in text:
        raise Failure(f"sysbench exited with {status}: {load.last_lines(6)}")
    return parse(text)


def parse(text):
    """Parses the output of sysbench."""
    found = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", text)
    if not found:
        raise Failure("sysbench printed no summary; is its version 1.0?")
    seen = driver.Latencies()
    for line in text.splitlines():
        if bucket := BUCKET.match(line):
            seen.add(round(float(bucket[1]) * 1e6), int(bucket[2]))
    return int(found[1]), float(found[2]), seen
