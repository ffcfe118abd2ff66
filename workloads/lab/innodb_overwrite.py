"""A server that overwrites its tables as fast as it can, for the campaign "snapshots": how much of what it overwrites do
snapshots hold, and what does taking them cost?"""

import time

import innodb_load
import innodb_server
from common import driver


def shop(spec):
    """Copies the shop into the dataset."""
    innodb_server.put(innodb_server.shop(spec, spec.get("shop", 0.1)), spec.path("db"))


def overwrite(spec):
    """Runs the shop's writes for `seconds`. The buffer pool is small, so that changed pages soon overwrite the old ones."""
    options = {
        "innodb_buffer_pool_size": spec.get("buffer_pool", "16M"),
        "innodb_max_dirty_pages_pct_lwm": 0.001,
        "innodb_max_dirty_pages_pct": 1,
        "innodb_doublewrite": spec.get("doublewrite", "ON"),
    }
    seconds = spec.get("seconds", 10)
    with innodb_server.MariaDb("overwrite", spec.scratch / "o", spec.path("db"), **options) as mariadb:
        load = innodb_load.sysbench(mariadb, "writes", "writes", spec.get("write_threads", 4), seconds, 0, spec.seed % 1_000_000)
        began = time.monotonic()
        with driver.measured(), driver.Progress(seconds, "s", watch=lambda: round(time.monotonic() - began, 3)), load:
            _, per_s, latencies = innodb_load.finish(load)
        driver.figure("writes_per_s", per_s, "1/s")
        driver.latency("write", latencies)
        flushed = mariadb.sql("SHOW GLOBAL STATUS LIKE 'Innodb_data_written'").split()[-1]
        driver.figure("flushed_bytes", int(flushed), "bytes")
