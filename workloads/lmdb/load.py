#!/usr/bin/env python3
"""Writes to an LMDB environment with several processes through a writable shared mapping, or checks its content.

usage: load.py fill DIR [--seconds N] [--writers N]
       load.py check DIR

Both print one line: the number of entries and a digest of the whole content, for comparison. Exit status: 0 valid, 1 not.
"""

import argparse
import contextlib
import hashlib
import multiprocessing
import random
import sys
import time

import lmdb

# Size in bytes; the file is extended to it at once.
MAP = 512 << 20


class Regret(Exception):
    """Aborts a transaction."""


def connect(path):
    return lmdb.open(path, map_size=MAP, writemap=True, map_async=False, sync=True, metasync=True, max_dbs=2)


def value(key, version, length):
    """Returns the expected content of an entry, which contains its version and length."""
    head = f"{key.hex()} {version} {length} ".encode()
    return head + random.Random(head).randbytes(length)


def write(path, number, seconds):
    draw = random.Random(number)
    env = connect(path)
    dup = env.open_db(b"dup", dupsort=True)
    until, version = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        version += 1
        with contextlib.suppress(Regret), env.begin(write=True) as txn:
            for _ in range(draw.randint(1, 20)):
                key = f"{draw.randint(0, 3000):05}".encode()
                if draw.random() < 0.2:
                    txn.delete(key)
                else:
                    txn.put(key, value(key, version, draw.choice([10, 100, 1000, 9000])))
                txn.put(key, str(draw.randint(0, 50)).encode(), db=dup)
            if draw.random() < 0.05:
                raise Regret
    env.close()


def check(path):
    env = connect(path)
    dup = env.open_db(b"dup", dupsort=True)
    total, entries = hashlib.sha256(), 0
    with env.begin() as txn:
        for key, found in txn.cursor():
            if key == b"dup":
                continue
            _, version, length, _ = found.split(b" ", 3)
            if found != value(key, int(version), int(length)):
                sys.exit(f"{key!r} holds other bytes than were written")
            total.update(key + found)
            entries += 1
        for key, found in txn.cursor(db=dup):
            total.update(key + found)
            entries += 1
    env.close()
    print(f"{entries} entries {total.hexdigest()}")


def main():
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("verb", choices=["fill", "check"])
    arguments.add_argument("dir")
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--writers", type=int, default=3)
    options = arguments.parse_args()
    if options.verb == "fill":
        # An environment must not be inherited: each process opens its own.
        context = multiprocessing.get_context("spawn")
        jobs = [context.Process(target=write, args=(options.dir, n, options.seconds)) for n in range(options.writers)]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        if any(job.exitcode for job in jobs):
            sys.exit("a writer failed (above)")
    check(options.dir)


if __name__ == "__main__":
    main()
