"""The four tables: made once by a private MariaDB, kept as .ibd files in the cache."""

import os
import shutil

from common import driver, server
from common.driver import Failure, log
from innodb_server import MARIADB, MariaDb

# In the order of the report, which calls them TABLE1 to TABLE4. What is in them: workloads/mariadb/kinds.lua.
NAMES = ("table1", "table2", "table3", "table4")
# The report's sizes in MiB. `share` of the scale makes them smaller, all by the same factor.
REPORT_MIB = {"table1": 172, "table2": 631, "table3": 2675, "table4": 2828}
LEAST_MIB = 8
# InnoDB lets a table grow by 4 MiB at a time and keeps some more free, which in a small table would be most of it. So the
# tables are made larger by this, and cut to their size: they are only copied and read from then on, never opened.
RESERVE_MIB = 12
# Of the data, not of the trial: the tables are the same in every block, as they were in the report.
DATA_SEED = 1


def size_mib(name, share):
    """How large a table is to be when the report's are taken `share` times."""
    if not 0 < share <= 1:
        raise Failure(f"the parameter share = {share} should be over 0 and at most 1: of the report's table sizes")
    return max(LEAST_MIB, round(REPORT_MIB[name] * share))


def path(spec, name):
    """A table's file in the cache."""
    return spec.cache / f"{name}-{size_mib(name, spec.get('share', 1.0))}M-seed{DATA_SEED}.ibd"


def ready(spec, name):
    """A table's file, which an earlier phase has made."""
    file = path(spec, name)
    if not file.exists():
        raise Failure(f"{file} is not there: the study needs the phase 'tables' before this one")
    return file


def prepare(spec):
    """The phase: makes the files that are not there and says what is in them; of one `table` only, if there is that
    parameter."""
    names = [spec.get("table")] if "table" in spec.parameters else NAMES
    if unknown := set(names) - set(NAMES):
        raise Failure(f"there is no table {unknown.pop()!r}; there are {', '.join(NAMES)}")
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
    # The server was stopped in order: every page is in its file.
    for name in missing:
        made = datadir / "kinds" / f"{name}.ibd"
        if not made.exists():
            raise Failure(f"sysbench made no {name}; {spec.scratch}/fill-{name}.log says why")
        keep(made, path(spec, name), size_mib(name, spec.get("share", 1.0)) << 20)
    shutil.rmtree(datadir)


def keep(made, wanted, size):
    """The first `size` bytes into the cache, whole or not at all; the two may be on different file systems."""
    temporary = wanted.with_name(f".{wanted.name}.{os.getpid()}")
    try:
        shutil.copyfile(made, temporary)
        if temporary.stat().st_size < size:
            raise Failure(f"{made.name} came out smaller than {size} bytes; was the disk full?")
        os.truncate(temporary, size)
        driver.sync_file(temporary)
        temporary.rename(wanted)
    finally:
        temporary.unlink(missing_ok=True)
