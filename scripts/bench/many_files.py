"""BENCH lines of 80-many-files.sh."""

import os
import random

import many

ARC_MIB = int(os.environ.get("MANY_ARC") or 8192)
SMOKE = os.environ.get("BENCH_SMOKE") == "1"
COUNT = int(os.environ.get("MANY_FILES") or (20_000 if SMOKE else 1_000_000))
ROUNDS = int(os.environ.get("MANY_ROUNDS") or (1 if SMOKE else 3))


def run(served, steps, count):
    path = served.mnt / "d"
    names = ["file-%08d" % n for n in range(count)]
    # A random order, because nodes that were created one after another are adjacent on disk.
    shuffled = names[:]
    random.Random(1).shuffle(shuffled)
    # Repeat short steps more often if there are few files.
    often = max(1, COUNT // count)

    def create(here):
        for name in names:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=here))

    def listing(times):
        for _ in range(times):
            assert sum(1 for _ in os.scandir(path)) == count

    def long_listing(times):
        for _ in range(times):
            with os.scandir(path) as entries:
                assert sum(entry.stat(follow_symlinks=False).st_nlink for entry in entries) == count

    def stat(here, those, times):
        for _ in range(times):
            for name in those:
                os.stat(name, dir_fd=here)

    def delete(here, those):
        for name in those:
            os.unlink(name, dir_fd=here)

    def opened(name, items, work, *arguments):
        here = os.open(path, os.O_RDONLY)
        try:
            steps.run(name, items, work, here, *arguments)
        finally:
            os.close(here)

    path.mkdir()
    opened("create", count, create)
    steps.run("list", count * often, listing, often)
    opened("stat", count * often, stat, names, often)
    served.again()
    steps.run("list, cold", count, listing, 1)
    served.again()
    steps.run("list with stat, cold", count, long_listing, 1)
    steps.run("list with stat", count * often, long_listing, often)
    served.again()
    opened("stat at random, cold", count, stat, shuffled, 1)
    # Delete one half in the order of `rm -r`.
    listed = os.listdir(path)[:count // 2]
    opened("delete as listed", len(listed), delete, listed)
    gone = set(listed)
    rest = [name for name in shuffled if name not in gone]
    opened("delete at random", len(rest), delete, rest)
    assert not os.listdir(path)


def bench():
    few, large = many.rounds(COUNT, ROUNDS, run, "through", "4", f"arc={ARC_MIB}")
    many.compare("many files", f"{COUNT} in a directory", few, large)
    peak, of = (max(one["peak_kib"] for one in runs) / 1024 for runs in (large, few))
    many.figure(f"many files/memory of the server, {COUNT} in a directory against a tenth", peak, "MiB", of)
    many.figure("many files/memory over the ARC limit", peak - ARC_MIB, "MiB", bar=many.DIRTY_MIB)


many.main(bench, "many-files")
