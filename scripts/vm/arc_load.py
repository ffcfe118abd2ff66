"""Loads for the part `arc` of scripts/test-kernel.sh, to be recorded by `poolwright record`: each makes its files, then runs at a fixed rate.

usage: arc_load.py prepare LOAD DIR     makes the files of a load in DIR: oltp, scan or sqlite
       arc_load.py run LOAD DIR         runs the load on them
       arc_load.py times                prints the seconds: before the load, of the load, after it

A run writes the file `marker`, waits, works, waits, and writes the file again: a replay in a kernel's dataset shows by the time of the marker
when its measured pass began, and nothing is dirty when the work begins and when the pass ends.
"""

import hashlib
import os
import random
import sqlite3
import sys
import time
from pathlib import Path

BEFORE, LENGTH, AFTER = 8, 48, 16  # seconds
RATE = 40  # operations a second: an emulated guest must keep up
SCAN_RATE, SCAN_READS = 80, 96  # reads of 128 KiB a second, and in a scan
PAGE = 16384
# Of no setting does the ARC hold nearly all: a small difference in memory would then be one of many misses.
PAGES = 14_000
SCANNED_PAGES = 9_216
ROWS = 200_000
WORDS = "account index request session worker cache commit page buffer client query table replica segment queue message".split()


def text(rng, length):
    """Half words, half digests in hexadecimal: lz4 saves about a third."""
    words = " ".join(rng.choice(WORDS) for _ in range(length // 8))[: length // 2]
    digests = "".join(hashlib.sha256(rng.randbytes(4)).hexdigest() for _ in range(length // 128 + 1))
    return words + digests[: length - len(words)]


def skewed(rng, count):
    """A number below `count`: few are frequent, and neighbours in frequency are not neighbours in the file."""
    return int(count * rng.random() ** 1.5) * 7919 % count


def paced(rate=RATE, count=None):
    """Yields numbers at a fixed rate, by default for the whole load."""
    began = time.monotonic()
    for n in range(count or LENGTH * rate):
        wait = began + n / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        yield n


def write_pages(path, count):
    rng = random.Random(1)
    pages = [text(rng, PAGE + 64).encode() for _ in range(512)]
    with open(path, "wb") as out:
        for n in range(count):
            page = pages[n * 31 % len(pages)][: PAGE - 16]
            turn = n * 16 % (PAGE - 16)
            out.write(f"{n:016d}".encode() + (page[turn:] + page[:turn])[: PAGE - 16])


def prepare_oltp(directory):
    write_pages(directory / "table", PAGES)
    (directory / "log").write_bytes(b"")


def prepare_scan(directory):
    write_pages(directory / "table", PAGES)
    write_pages(directory / "history", SCANNED_PAGES)


def run_oltp(directory):
    """Reads of one or eight pages, and writes of single pages; a log with a sync after every fifth write."""
    rng = random.Random(2)
    table = os.open(directory / "table", os.O_RDWR)
    log = os.open(directory / "log", os.O_RDWR | os.O_APPEND)
    writes = 0
    for _ in paced():
        offset = skewed(rng, PAGES - 8) * PAGE
        page = os.pread(table, PAGE * rng.choice([1, 8, 8]), offset)[:PAGE]
        if rng.random() < 0.25:
            os.pwrite(table, page[:-64] + page[:64], offset)
            os.write(log, page[:2048])
            writes += 1
            if writes % 5 == 0:
                os.fdatasync(log)


def run_scan(directory):
    """Reads of one or eight pages; every four seconds a scan of 12 MiB of another file; few writes, and no sync.

    Random reads of the same file would take the streams that a scan needs, until the clock's next second: the share that is prefetched
    would depend on the time at which the replay began. A scan that needs a second for the 4 MiB that are prefetched ahead of it would often
    lose them, because OpenZFS may evict them after a second.
    """
    rng = random.Random(3)
    table = os.open(directory / "table", os.O_RDWR)
    history = os.open(directory / "history", os.O_RDONLY)
    scan = 0
    for n in paced():
        if n % (4 * RATE) < SCAN_READS * RATE // SCAN_RATE:
            if n % (4 * RATE) == 0:
                start = 12 * (scan * 5 % 12) << 20
                for read in paced(SCAN_RATE, SCAN_READS):
                    os.pread(history, 128 << 10, start + read * (128 << 10))
                scan += 1
            continue
        offset = skewed(rng, PAGES - 8) * PAGE
        page = os.pread(table, PAGE * rng.choice([1, 8, 8]), offset)[:PAGE]
        if rng.random() < 0.05:
            os.pwrite(table, page[:-64] + page[:64], offset)


def connect(directory):
    connection = sqlite3.connect(directory / "shop.db", isolation_level=None)
    connection.executescript("PRAGMA page_size=4096; PRAGMA journal_mode=PERSIST; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-1024")
    return connection


def prepare_sqlite(directory):
    rng = random.Random(4)
    connection = connect(directory)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, note TEXT)")
    connection.execute("BEGIN")
    notes = [text(rng, 800) for _ in range(2000)]
    rows = ((n, n * 7919 % 5003, notes[n * 31 % 2000][: 500 + n % 300]) for n in range(ROWS))
    connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    connection.execute("CREATE INDEX orders_customer ON orders (customer)")
    connection.execute("COMMIT")
    connection.close()


def run_sqlite(directory):
    """A SQLite database: reads of 40 neighbouring rows, and by a secondary index, and updates of ten rows in a transaction."""
    rng = random.Random(5)
    connection = connect(directory)
    # Each reads about ten pages.
    for n in paced(RATE // 2):
        row = skewed(rng, ROWS)
        if n % 40 == 0:
            connection.execute("BEGIN")
            for _ in range(10):
                connection.execute("UPDATE orders SET customer = customer + 5003 WHERE id = ?", (skewed(rng, ROWS),))
            connection.execute("COMMIT")
        elif n % 40 == 20:
            connection.execute("SELECT sum(length(note)) FROM orders WHERE customer = ?", (row % 5003,)).fetchone()
        else:
            connection.execute("SELECT sum(length(note)) FROM orders WHERE id BETWEEN ? AND ?", (row, row + 40)).fetchone()
    connection.close()


LOADS = {"oltp": (prepare_oltp, run_oltp), "scan": (prepare_scan, run_scan), "sqlite": (prepare_sqlite, run_sqlite)}


def run(load, directory):
    marker = os.open(directory / "marker", os.O_RDWR)
    os.pwrite(marker, b"begins\n", 0)
    time.sleep(BEFORE)
    LOADS[load][1](directory)
    time.sleep(AFTER)
    os.pwrite(marker, b"ends...\n", 0)


def main():
    arguments = sys.argv[1:]
    if arguments == ["times"]:
        print(BEFORE, LENGTH, AFTER)
    elif len(arguments) == 3 and arguments[0] in ("prepare", "run") and arguments[1] in LOADS:
        directory = Path(arguments[2])
        if arguments[0] == "prepare":
            directory.mkdir(parents=True)
            (directory / "marker").write_bytes(b"marker.\n")
            LOADS[arguments[1]][0](directory)
        else:
            run(arguments[1], directory)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
