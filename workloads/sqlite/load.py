#!/usr/bin/env python3
"""Writes to and reads from an SQLite database with several processes, or checks its content.

usage: load.py fill DB [--journal wal|delete|truncate|persist] [--seconds N] [--writers N] [--mmap BYTES]
       load.py check DB

Both print one line: the number of rows and a digest of the whole content, for comparison. Every transaction maintains a
sum, which the check verifies in addition to SQLite's integrity_check and foreign_key_check. Exit status: 0 valid, 1 not.
"""

import argparse
import hashlib
import multiprocessing
import random
import sqlite3
import sys
import time

ACCOUNTS = 200
SCHEMA = f"""
create table account(id integer primary key, balance integer not null);
create table entry(id integer primary key, account integer not null references account(id), amount integer not null,
                   note blob);
create index entry_account on entry(account, amount);
with recursive n(i) as (select 1 union all select i + 1 from n where i < {ACCOUNTS})
    insert into account select i, 0 from n;
"""


def connect(path, journal=None, mmap=0):
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    if journal:
        got = db.execute(f"pragma journal_mode={journal}").fetchone()[0]
        if got != journal:
            sys.exit(f"journal_mode={journal} was refused: {got}")
    db.execute("pragma synchronous=full")
    db.execute("pragma foreign_keys=on")
    db.execute(f"pragma mmap_size={mmap}")
    db.execute("pragma cache_size=-2000")
    return db


def write(path, number, options, until):
    draw = random.Random(number)
    db = connect(path, options.journal, options.mmap)
    while time.monotonic() < until:
        db.execute("begin immediate")
        for _ in range(draw.randint(1, 8)):
            account, amount = draw.randint(1, ACCOUNTS), draw.randint(-999, 999)
            note = draw.randbytes(draw.choice([0, 20, 200, 5000, 30000]))
            db.execute("insert into entry(account, amount, note) values(?, ?, ?)", (account, amount, note))
            db.execute("update account set balance = balance + ? where id = ?", (amount, account))
        if draw.random() < 0.2:
            gone = db.execute("select id, account, amount from entry order by id limit 10").fetchall()
            for row, account, amount in gone:
                db.execute("update account set balance = balance - ? where id = ?", (amount, account))
                db.execute("delete from entry where id = ?", (row,))
        db.execute("rollback" if draw.random() < 0.05 else "commit")
    db.close()


def read(path, options, until):
    db = connect(path, None, options.mmap)
    while time.monotonic() < until:
        balanced(db)
        time.sleep(0.02)
    db.close()


def balanced(db):
    """Checks that the sums are consistent: one statement sees one state of the database."""
    off = db.execute(
        "select count(*) from account where balance <> "
        "(select coalesce(sum(amount), 0) from entry where entry.account = account.id)"
    ).fetchone()[0]
    if off:
        sys.exit(f"{off} accounts do not balance")


def digest(db):
    total, rows = hashlib.sha256(), 0
    for table in ("account", "entry"):
        for row in db.execute(f"select * from {table} order by id"):
            total.update(repr(row).encode())
            rows += 1
    return f"{rows} rows {total.hexdigest()}"


def check(path):
    db = connect(path)
    found = [row[0] for row in db.execute("pragma integrity_check")]
    if found != ["ok"]:
        sys.exit("integrity_check: " + "; ".join(found[:5]))
    broken = db.execute("pragma foreign_key_check").fetchall()
    if broken:
        sys.exit(f"foreign_key_check: {broken[:5]}")
    balanced(db)
    print(digest(db))


def fill(options):
    db = connect(options.db, options.journal, options.mmap)
    db.executescript(SCHEMA)
    db.close()
    until = time.monotonic() + options.seconds
    jobs = [multiprocessing.Process(target=write, args=(options.db, n, options, until)) for n in range(options.writers)]
    jobs.append(multiprocessing.Process(target=read, args=(options.db, options, until)))
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    if any(job.exitcode for job in jobs):
        sys.exit("a writer or the reader failed (above)")
    check(options.db)


def main():
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("verb", choices=["fill", "check"])
    arguments.add_argument("db")
    arguments.add_argument("--journal", default="wal")
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--writers", type=int, default=3)
    arguments.add_argument("--mmap", type=int, default=0)
    options = arguments.parse_args()
    fill(options) if options.verb == "fill" else check(options.db)


if __name__ == "__main__":
    main()
