"""The studies "compression", "du" and "checksum": copies of a table's file from the page cache into a dataset."""

import os
import resource
import statistics
import subprocess
import time
from pathlib import Path

import innodb_tables
from common import driver
from common.driver import Failure
from innodb_beside import Beside

# As a user's `cp`: it creates no holes, as in the report, and does not share blocks.
CP = ["cp", "--sparse=never", "--reflink=never", "--"]
SECTOR = 512
PIECE = 1 << 20
# `du` has settled if it has not changed for this many seconds, which is longer than a transaction group (5 s).
SETTLED_S = 6.0
GIVE_UP_S = 60.0


def copier(name):
    """Returns the phase that copies table `name`, alone in its dataset: it first removes the files of earlier phases."""

    def phase(spec):
        source, target = innodb_tables.ready(spec, name), spec.path("target") / f"{name}.ibd"
        empty(target.parent)
        into_page_cache(source)
        with Beside() as beside:
            beside.begin()
            with driver.measured():
                spent = engine_cpu_s(spec)
                seen = copies_for(spec.get("least_s", 0.0), source, target)
                spent = engine_cpu_s(spec) - spent
                beside.end()
            beside.say()
        size = source.stat().st_size
        durable_s = statistics.median(copied.durable_s for copied in seen)
        driver.figure("copy_s", statistics.median(copied.copy_s for copied in seen), "s")
        driver.figure("durable_s", durable_s, "s")
        driver.figure("bytes_per_s", size / durable_s, "bytes/s")
        driver.figure("du_at_once", seen[0].du_at_once, "bytes")
        driver.figure("copies", len(seen), "count")
        if spec.engine_pid is not None:
            # That of the window would depend on the number of copies.
            driver.figure("engine_s", spent / len(seen), "s")
        # Check that nothing is read from disk, as the report did.
        driver.figure("source_reads", sum(copied.source_reads for copied in seen), "bytes")

    return phase


class Copied:
    """Duration of a copy: until `cp` returned, as the report timed it, and until the bytes were on the device."""

    copy_s = durable_s = du_at_once = source_reads = 0


def copy(pairs, durable=True):
    """Copies files one after another."""
    seen, targets = Copied(), [target for _, target in pairs]
    total = sum(source.stat().st_size for source, _ in pairs)
    with driver.Progress(total, "bytes", watch=lambda: sum(t.stat().st_size for t in targets if t.exists())):
        began, read = time.monotonic(), _blocks_read()
        for source, target in pairs:
            if subprocess.run(CP + [source, target], stdin=subprocess.DEVNULL).returncode != 0:
                raise Failure(f"cp cannot copy {source} to {target} (its message is above); is the dataset too small?")
        seen.copy_s = time.monotonic() - began
        seen.source_reads = _blocks_read() - read
        seen.du_at_once = du(targets)
        if durable:
            for target in targets:
                driver.sync_file(target)
            seen.durable_s = time.monotonic() - began
    return seen


def copies_for(least_s, source, target):
    """Copies a file, and again until `least_s` have passed: a single copy of a small table is too short to be compared. Each copy
    replaces the one before, which is removed between the times."""
    began, seen = time.monotonic(), []
    while not seen or time.monotonic() - began < least_s:
        target.unlink(missing_ok=True)
        seen.append(copy([(source, target)]))
    return seen


def engine_cpu_s(spec):
    """Returns the CPU time of the process that serves the datasets, in seconds; 0 on a directory."""
    if spec.engine_pid is None:
        return 0.0
    with open(f"/proc/{spec.engine_pid}/stat") as file:
        # The name of the process, in brackets, may contain spaces; utime and stime are fields 14 and 15.
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def du(files):
    """Returns the output of `du` in bytes."""
    return sum(file.stat().st_blocks * SECTOR for file in files)


def _blocks_read():
    # Of the children that have ended, here cp.
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock * SECTOR


def into_page_cache(file):
    """Reads a file into the page cache."""
    with open(file, "rb", buffering=0) as source:
        while source.read(PIECE):
            pass


def empty(folder):
    """Removes the files of a dataset."""
    for file in Path(folder).iterdir():
        file.unlink()


def du_phase(spec):
    """Measures how long `du` differs from its final value while nothing is synced, then how many copies over the file succeed."""
    name = spec.get("table", "table1")
    source, target = innodb_tables.ready(spec, name), spec.path("target") / f"{name}.ibd"
    into_page_cache(source)
    with driver.measured():
        copied = copy([(source, target)], durable=False)
        ended = time.monotonic()
        said, changed, lag = -1, ended, 0.0
        while (now := time.monotonic()) - changed < SETTLED_S:
            if now - ended > GIVE_UP_S:
                raise Failure(f"du of {target} still changed {GIVE_UP_S:.0f} s after the copy")
            if (found := du([target])) != said:
                # The first value is not a change.
                said, changed, lag = found, now, now - ended if said >= 0 else 0.0
                driver.series("du", said, "bytes")
            time.sleep(0.02)
    driver.figure("copy_s", copied.copy_s, "s")
    driver.figure("du_at_once", copied.du_at_once, "bytes")
    driver.figure("du_settled", said, "bytes")
    driver.figure("du_lag_s", lag, "s")
    driver.figure("overwritten", overwritten(spec.get("overwrites", 3), source, target), "percent")


def overwritten(times, source, target):
    """Copies over the existing file; returns the share of the copies that succeed, in percent, 1 if none does."""
    done = sum(subprocess.run(CP + [source, target], stdin=subprocess.DEVNULL).returncode == 0 for _ in range(times))
    return max(100 * done / times, 1)


def _copies(spec):
    """Returns source and targets of the checksum study: enough copies of one table to be measurable."""
    name = spec.get("table", "table4")
    source = innodb_tables.ready(spec, name)
    return source, [spec.path("target") / f"{name}-{i}.ibd" for i in range(spec.get("copies", 1))]


def write(spec):
    """Writes the copies: every block gets its checksum."""
    source, targets = _copies(spec)
    into_page_cache(source)
    with driver.measured():
        seen = copy([(source, target) for target in targets])
    _say_speed(source, targets, seen.durable_s)


def read(spec):
    """Reads the copies: every block is compared with its checksum, because nothing is cached in this cold phase."""
    source, targets = _copies(spec)
    done = 0
    with driver.measured(), driver.Progress(source.stat().st_size * len(targets), "bytes") as progress:
        began = time.monotonic()
        for target in targets:
            with open(target, "rb", buffering=0) as file:
                while piece := file.read(PIECE):
                    done += len(piece)
                    progress.set(done)
        took = time.monotonic() - began
    _say_speed(source, targets, took)


def _say_speed(source, targets, seconds):
    driver.figure("bytes_per_s", source.stat().st_size * len(targets) / seconds, "bytes/s")
