"""BENCH lines of 81-many-records.sh."""

import ctypes
import os
import random
import threading
import time

import many

ARC_MIB = 2048
SMOKE = os.environ.get("BENCH_SMOKE") == "1"
COUNT = int(os.environ.get("MANY_RECORDS") or (204_800 if SMOKE else 10_240_000))
ROUNDS = int(os.environ.get("MANY_ROUNDS") or 1)
RECORD = 1024
CHUNK = 1024  # records that are written and read at once
STATS = 50_000
LIBC = ctypes.CDLL(None, use_errno=True)
AT_EMPTY_PATH, AT_STATX_FORCE_SYNC, STATX_BASIC = 0x1000, 0x2000, 0x7FF


WORDS = b"paid open shipped returned cancelled Berlin Hamburg Bremen Dresden Leipzig cash card transfer invoice".split()


def rows(seed):
    """A chunk of records that resemble table rows and compress to half with lz4."""
    dice = random.Random(seed)
    chunk = bytearray()
    for number in range(CHUNK):
        record = bytearray()
        while len(record) < RECORD:
            words = b"|".join(dice.choice(WORDS).ljust(10) for _ in range(4))
            month, day, cents = dice.randrange(1, 13), dice.randrange(1, 29), dice.randrange(10**6)
            record += b"|%08d|2024-%02d-%02d|%s|%6d.00|" % (number, month, day, words, cents)
        chunk += record[:RECORD]
    return bytes(chunk)


class Neighbour:
    """A second program's small synchronous writes during a step, and the longest time that one of them took."""

    def __init__(self, path):
        self.path, self.longest, self.ended = path, 0.0, threading.Event()
        self.thread = threading.Thread(target=self.work)

    def work(self):
        file = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o644)
        while True:
            began = time.monotonic()
            os.pwrite(file, b"neighbour" * 100, 0)
            os.fdatasync(file)
            self.longest = max(self.longest, time.monotonic() - began)
            if self.ended.wait(0.02):
                break
        os.close(file)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def run(served, steps, count):
    path, side, chunks = served.mnt / "f", served.mnt / "side", [rows(seed) for seed in range(16)]
    assert count % (2 * CHUNK) == 0
    # Few enough for one transaction group. An indirect block covers 1024 records and is written once in each group, so the cost of
    # an overwrite depends on the number of overwrites in the same group.
    few = random.Random(2).sample(range(count), count // 400)
    stalls = {}

    def settle():
        """Waits until written data are on disk: SEEK_HOLE waits for the file's transaction group."""
        file = os.open(side, os.O_CREAT | os.O_RDWR, 0o644)
        os.pwrite(file, b"x" * RECORD, 0)
        os.lseek(file, 0, os.SEEK_HOLE)
        os.close(file)

    def free():
        return os.statvfs(served.mnt).f_bfree * os.statvfs(served.mnt).f_frsize

    def write(file):
        for at in range(count // CHUNK):
            assert os.pwrite(file, chunks[at % 16], at * CHUNK * RECORD) == CHUNK * RECORD
        settle()

    def read(file):
        for at in range(count // CHUNK):
            assert os.pread(file, CHUNK * RECORD, at * CHUNK * RECORD) == chunks[at % 16]

    def stat(file):
        answer = ctypes.create_string_buffer(256)
        for _ in range(STATS):
            assert LIBC.statx(file, b"", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC, answer) == 0

    def seek(file):
        assert os.lseek(file, 0, os.SEEK_DATA) == 0
        assert os.lseek(file, 0, os.SEEK_HOLE) == count * RECORD

    def read_some(file):
        for at in few:
            start = at % CHUNK * RECORD
            assert os.pread(file, RECORD, at * RECORD) == chunks[at // CHUNK % 16][start:start + RECORD]

    def write_some(file):
        for at in few:
            start = (at + 1) % CHUNK * RECORD
            os.pwrite(file, chunks[at % 16][start:start + RECORD], at * RECORD)
        settle()

    def truncate(file):
        os.ftruncate(file, count // 2 * RECORD)
        settle()

    def delete(before):
        path.unlink()
        while free() < before:
            settle()

    def step(name, items, work, *arguments):
        with Neighbour(served.mnt / "neighbour") as neighbour:
            steps.run(name, items, work, *arguments)
        stalls[name] = neighbour.longest

    def opened(name, items, work):
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            step(name, items, work, file)
        finally:
            os.close(file)

    settle()
    before = free() - (1 << 20)
    opened("write", count, write)
    opened("stat", STATS, stat)
    print(f"  {os.stat(path).st_blocks * 512 / count:.0f} bytes on disk for a record of {RECORD}")
    served.again()
    opened("find holes, cold", count, seek)
    served.again()
    opened("read, cold", count, read)
    served.again()
    opened("read at random, cold", len(few), read_some)
    opened("overwrite at random", len(few), write_some)
    opened("truncate by half", count // 2, truncate)
    step("delete", count // 2, delete, before)
    return {"stalls": stalls}


def bench():
    few, large = many.rounds(COUNT, ROUNDS, run, "through", "4", f"arc={ARC_MIB}", f"recordsize={RECORD}", "ashift=9")
    many.compare("many records", f"{COUNT} in a file", few, large)
    for step in large[0]["stalls"]:
        longest, of = (max(one["stalls"][step] for one in runs) * 1e3 for runs in (large, few))
        many.figure(f"many records/longest of a neighbour's synchronous writes during: {step}", longest, "ms", of)
    # Dirty data, and 3 KiB of bookkeeping for each dirty record while it is written.
    most = many.DIRTY_MIB + many.DIRTY_MIB * 3072 // RECORD
    over = max(one["peak_kib"] for one in large) / 1024 - ARC_MIB
    many.figure("many records/memory over the ARC limit", over, "MiB", bar=most)


many.main(bench, "many-records")
