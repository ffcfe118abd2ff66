"""The study "memory": the buffer pool and the ARC under one limit.

The report's server reserved its buffer pool when it started, and could not once the ARC had filled, because Solaris does
not overcommit memory. Linux does by default, so the server gets a limit on its data segment (RLIMIT_DATA): `memory` minus
the memory of the process that serves the datasets.
"""

import contextlib
import re

import innodb_load
import innodb_server
from common import driver
from common.driver import Failure
from innodb_server import MariaDb

MIB = 1 << 20
FILL = "fill"


def database(spec):
    """Puts the shop on its dataset, and incompressible data to fill the ARC on the other one."""
    innodb_server.put(innodb_server.shop(spec, spec.get("shop", 0.1)), spec.path("db"))
    pick = spec.random("fill")
    with open(spec.path("other") / FILL, "wb", buffering=0) as file:
        for _ in range(spec.get("fill_mib", 64)):
            file.write(pick.randbytes(MIB))
        driver.sync_file(file.name)


def fill_arc(spec):
    """Fills the ARC with other data of the machine, as the report's copies did."""
    for _ in range(2):
        with open(spec.path("other") / FILL, "rb", buffering=0) as file:
            while file.read(MIB):
                pass
    driver.figure("engine_bytes", engine_bytes(spec), "bytes")


def start(spec):
    """Starts the server in the remaining memory, and measures reads if it starts."""
    used = engine_bytes(spec)
    left = size(spec.get("memory", "1G")) - used
    driver.figure("engine_bytes", used, "bytes")
    driver.figure("left_bytes", max(left, 0), "bytes")
    mariadb = MariaDb(
        "server", spec.scratch / "m", spec.path("db"), before=["prlimit", f"--data={max(left, 0)}", "--"],
        innodb_buffer_pool_size=spec.get("buffer_pool", "128M"))
    (mariadb.folder / "server.log").unlink(missing_ok=True)
    with contextlib.ExitStack() as running:
        try:
            running.enter_context(mariadb)
        except Failure:
            # With enough memory it is a failure like any other.
            why = refusal((mariadb.folder / "server.log").read_text(errors="replace"))
            if why is None:
                raise
            driver.log(f"the server does not start with {left // MIB} MiB left of {spec.get('memory', '1G')}: {why}")
            return _say(False, 0.0)
        rate = _work(spec, mariadb)
    return _say(True, rate)


def _work(spec, mariadb):
    with driver.measured():
        threads, seconds = spec.get("threads", 4), spec.get("seconds", 5)
        with innodb_load.sysbench(mariadb, "work", "reads", threads, seconds, rate=0, seed=spec.seed % 1_000_000) as load:
            _, per_s, latencies = innodb_load.finish(load)
    driver.latency("read", latencies)
    return per_s


def _say(started, per_s):
    driver.figure("started", int(started), "count")
    driver.figure("reads_per_s", per_s, "1/s")


def refusal(log):
    """Returns why the server did not start if the cause was memory, otherwise None. The log does not always name the cause:
    MariaDB 10.11 crashes if its buffer pool is refused."""
    said = re.search(r"Cannot allocate [^\n]*?(?=\. Check|\n|$)", log)
    if said:
        return said[0]
    asked, granted = "innodb_buffer_pool_size=" in log, "Completed initialization of buffer pool" in log
    crash = re.search(r"got signal \d+", log)
    return f"it {crash[0]} when it allocated its buffer pool" if crash and asked and not granted else None


def size(text):
    """Converts 512M, 2G and similar to bytes."""
    found = re.fullmatch(r"(\d+)([KMGT]?)", str(text))
    if not found:
        raise Failure(f"{text!r} is no size: say it like 512M or 2G")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[found[2]]


def engine_bytes(spec):
    """Returns the resident bytes of the process that serves the datasets; 0 on a directory."""
    if spec.engine_pid is None:
        return 0
    with open(f"/proc/{spec.engine_pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    return 0
