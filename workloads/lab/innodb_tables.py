"""The four tables: created once by a private MariaDB, kept as .ibd files in the cache."""

import os
import shutil

from common import driver, server
from common.driver import Failure, log
from innodb_server import MARIADB, MariaDb

# In the order of the report, which calls them TABLE1 to TABLE4. workloads/mariadb/kinds.lua describes their content.
NAMES = ("table1", "table2", "table3", "table4")
# The report's sizes in MiB. `share` of the scale reduces all of them by the same factor.
REPORT_MIB = {"table1": 172, "table2": 631, "table3": 2675, "table4": 2828}
LEAST_MIB = 8
# InnoDB extends a table by 4 MiB at a time and keeps some more free, which would be most of a small table. Therefore
# the tables are created larger by this many MiB and truncated: they are only copied and read, never opened.
RESERVE_MIB = 12
# Seed of the data, not of the trial: the tables are the same in every block, as in the report.
DATA_SEED = 1


def size_mib(name, share):
    """Returns the size of a table in MiB: the report's, multiplied by `share`."""
    if not 0 < share <= 1:
        raise Failure(f"the parameter share = {share} must be above 0 and at most 1 (relative to the report's table sizes)")
    return max(LEAST_MIB, round(REPORT_MIB[name] * share))


def path(spec, name):
    """Returns the path of a table's file in the cache."""
    return spec.cache / f"{name}-{size_mib(name, spec.get('share', 1.0))}M-seed{DATA_SEED}.ibd"


def ready(spec, name):
    """Returns the path of a table's file, which an earlier phase has created."""
    file = path(spec, name)
    if not file.exists():
        raise Failure(f"{file} does not exist: the study needs the phase 'tables' before this one")
    return file


def prepare(spec):
    """The phase that creates the missing files and prints figures of their data; only for one table if the parameter `table`
    is set."""
    names = [spec.get("table")] if "table" in spec.parameters else NAMES
    if unknown := set(names) - set(NAMES):
        raise Failure(f"unknown table {unknown.pop()!r}; expected one of {', '.join(NAMES)}")
    missing = [name for name in names if not path(spec, name).exists()]
    if missing:
        _make(spec, missing)
    samples = []
    for name in names:
        own = list(driver.samples_of(path(spec, name), spec.random(f"samples/{name}"), pieces=16))
        bits, gzip6 = driver.entropy(own)
        driver.figure(f"{name}_entropy", bits, "count")
        driver.figure(f"{name}_gzip6_ratio", gzip6, "ratio")
        samples += own
    driver.say_entropy(samples)


def _make(spec, missing):
    log(f"making {', '.join(missing)}, once for this cache")
    spec.cache.mkdir(parents=True, exist_ok=True)
    datadir = spec.scratch / "tables"
    # Nothing of this server is measured, so it need not survive a crash.
    with MariaDb("tables", spec.scratch / "t", datadir, innodb_buffer_pool_size="256M", innodb_log_file_size="256M",
                 innodb_flush_log_at_trx_commit=0, innodb_doublewrite="OFF") as mariadb:
        mariadb.sql("CREATE DATABASE kinds CHARACTER SET utf8mb4")
        for name in missing:
            server.run(f"fill-{name}", [
                "sysbench", MARIADB / "kinds.lua", "--db-driver=mysql", f"--mysql-socket={mariadb.socket}", "--mysql-user=root",
                "--mysql-db=kinds", "--verbosity=2", f"--table={name}",
                f"--mib={size_mib(name, spec.get('share', 1.0)) + RESERVE_MIB}", f"--seed={DATA_SEED}", "prepare",
            ], spec.scratch, env={**os.environ, "LUA_PATH": f"{MARIADB}/?.lua;;"})
    # The server was stopped cleanly: every page is in its file.
    for name in missing:
        made = datadir / "kinds" / f"{name}.ibd"
        if not made.exists():
            raise Failure(f"sysbench did not create {name}; see {spec.scratch}/fill-{name}.log")
        keep(made, path(spec, name), size_mib(name, spec.get("share", 1.0)) << 20)
    shutil.rmtree(datadir)


def keep(made, wanted, size):
    """Copies the first `size` bytes into the cache atomically; the two may be on different file systems."""
    with driver.created(wanted) as temporary:
        shutil.copyfile(made, temporary)
        if temporary.stat().st_size < size:
            raise Failure(f"{made.name} came out smaller than {size} bytes; was the disk full?")
        os.truncate(temporary, size)
        driver.sync_file(temporary)
