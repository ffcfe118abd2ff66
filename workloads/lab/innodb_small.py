"""The study "small": single small reads and writes in an InnoDB file, as the database makes them and the report proposed."""

import os
import time

import innodb_copy
import innodb_tables
from common import driver

# Bytes of an InnoDB page, and of a record of the dataset.
PAGE = 16 << 10
SIZES = {"512": 512, "4k": 4 << 10, "16k": PAGE}
FILE = "table.ibd"


def place(spec):
    """Copies the table into the dataset."""
    source = innodb_tables.ready(spec, spec.get("table", "table2"))
    innodb_copy.into_page_cache(source)
    innodb_copy.copy([(source, spec.path("db") / FILE)])


def cold(spec):
    """Reads while nothing is cached: each read takes a page that was not read before, in random order."""
    with _opened(spec, os.O_RDONLY) as file, driver.measured(), driver.Progress(None, "calls") as progress:
        pages = list(range(file.pages))
        spec.random("cold").shuffle(pages)
        share = len(pages) // len(SIZES)
        for i, (name, size) in enumerate(SIZES.items()):
            _timed(spec, f"cold_read_{name}", pages[i * share:(i + 1) * share], progress, lambda at: os.pread(file.fd, size, at))


def warm(spec):
    """Repeatedly reads pages that are in the ARC, where they are compressed: all were read once before."""
    with _opened(spec, os.O_RDONLY) as file:
        for page in range(file.pages):
            os.pread(file.fd, PAGE, page * PAGE)
        with driver.measured(), driver.Progress(None, "calls") as progress:
            for name, size in SIZES.items():
                _timed(spec, f"read_{name}", _forever(spec, name, file.pages), progress, lambda at: os.pread(file.fd, size, at))


def synced(spec):
    """Writes, each followed by an fdatasync, like a database's. The data is the start of another page of the same table, so
    that it compresses like the data that it replaces."""
    with _opened(spec, os.O_RDWR) as file:
        pick = spec.random("content")
        pages = [os.pread(file.fd, PAGE, pick.randrange(file.pages) * PAGE) for _ in range(256)]
        turn = 0
        with driver.measured(), driver.Progress(None, "calls") as progress:
            for name, size in SIZES.items():

                def write(at):
                    nonlocal turn
                    turn += 1
                    os.pwrite(file.fd, pages[turn % len(pages)][:size], at)
                    os.fdatasync(file.fd)

                _timed(spec, f"write_{name}", _forever(spec, name, file.pages), progress, write)


class _opened:
    """The table's file, opened for single calls."""

    def __init__(self, spec, flags):
        self.fd = os.open(spec.path("db") / FILE, flags)
        self.pages = os.fstat(self.fd).st_size // PAGE

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)


def _forever(spec, what, pages):
    pick = spec.random(what)
    while True:
        yield pick.randrange(pages)


def _timed(spec, op, pages, progress, call):
    """Calls `call` with the offset of each page until there are no more or the time is over; prints the latencies."""
    until = time.monotonic_ns() + int(spec.get("seconds", 1.0) * 1e9)
    seen = driver.Latencies()
    for page in pages:
        began = time.monotonic_ns()
        if began >= until:
            break
        call(page * PAGE)
        seen.add(time.monotonic_ns() - began)
        progress.add()
    driver.latency(op, seen)
