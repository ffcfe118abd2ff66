"""The phases of the driver `truth`, the same for every database.

A workload is a module truth_NAME.py with

        check()                         yields a line for each missing requirement
        prepare(spec, folder)           creates the database below `folder`, which has a subdirectory for each dataset
        serving(spec)                   a context in which the server runs on the datasets
        Clients(spec, seconds)          a context in which the clients work for `seconds`; see `Clients` below

    or, instead of the last two, a `load(spec)` that does all of it.

    Every client records when each of its transactions ended and how long it took. So the measured window can be selected
    exactly, and the clients need not be restarted after the warm-up.
"""

import array
import contextlib
import errno
import importlib
import multiprocessing
import os
import shutil
import sys
import time
from pathlib import Path

from common import driver, server
from common.driver import Failure

# The clients continue for a moment after the window, so that the load covers all of it.
TAIL_S = 0.5
LOOK_S = 0.1
PIECE = 1 << 20
NS_PER_S = 1_000_000_000
WORKLOADS = ("mariadb", "mariadb_load", "postgresql", "postgresql_scan", "sqlite", "sqlite_rollback", "kv", "openldap", "etcd")


def workload_named(name):
    """Returns the module of a workload."""
    if name not in WORKLOADS:
        raise Failure(f"unknown workload {name!r}; expected one of {', '.join(WORKLOADS)}")
    return importlib.import_module(f"truth_{name}")


def check():
    """Yields a line for each missing requirement of the study's workload, or of all workloads if none is named."""
    asked = driver.checked_parameters().get("workload")
    lines = (line for name in ([asked] if asked else WORKLOADS) for line in workload_named(name).check())
    return dict.fromkeys(lines)


# ---- the prepared database ----


def place(spec):
    """Copies the prepared database into the empty datasets."""
    made = prepared(spec)
    for role, path in spec.paths.items():
        _copy(made / role, path)
        driver.sync_tree(path)


def prepared(spec):
    """Returns the directory of the prepared database, created if it is missing, with a subdirectory for each dataset."""
    name = spec.get("workload", "")
    made = spec.cache / f"{name}-{spec.get('size', 1.0):g}"
    if not made.exists():
        with driver.created(made) as temporary:
            for role in spec.paths:
                (temporary / role).mkdir(parents=True)
            driver.log(f"preparing {made.name}, once for this cache")
            workload_named(name).prepare(spec, temporary)
            driver.sync_tree(temporary)
    return made


def _copy(source, target):
    """Copies the content of a directory with its holes (LMDB's file is mostly one) and owners (some servers require
    theirs)."""
    shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True, copy_function=_copy_file)
    for folder, folders, files in os.walk(source):
        at = Path(target) / Path(folder).relative_to(source)
        for name in [".", *folders, *files]:
            owner = os.lstat(Path(folder) / name)
            os.chown(at / name, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _copy_file(source, target):
    with open(source, "rb", buffering=0) as read, open(target, "wb", buffering=0) as write:
        size, at = os.fstat(read.fileno()).st_size, 0
        write.truncate(size)
        while at < size:
            try:
                at = os.lseek(read.fileno(), at, os.SEEK_DATA)
            except OSError as why:
                if why.errno != errno.ENXIO:
                    raise
                break
            end = os.lseek(read.fileno(), at, os.SEEK_HOLE)
            os.lseek(read.fileno(), at, os.SEEK_SET)
            while at < end:
                piece = read.read(min(PIECE, end - at))
                if not piece:
                    raise Failure(f"{source} was truncated while it was copied")
                os.pwrite(write.fileno(), piece, at)
                at += len(piece)
    shutil.copystat(source, target)


# ---- the load ----


def load(spec):
    """Runs the server and its clients; measures `seconds` after `warm_s`."""
    workload = workload_named(spec.get("workload", ""))
    if hasattr(workload, "load"):
        workload.load(spec)
        return
    warm, seconds = spec.get("warm_s", 5.0), spec.get("seconds", 15.0)
    with workload.serving(spec):
        with workload.Clients(spec, warm + seconds + TAIL_S) as clients:
            _sleep(clients, clients.began_ns + int(warm * NS_PER_S))
            with driver.measured(), driver.Progress(None, "transactions", watch=clients.done):
                began = time.monotonic_ns()
                _sleep(clients, began + int(seconds * NS_PER_S))
                ended = time.monotonic_ns()
            clients.finish()
        _say(clients.transactions(), began, ended)


def _sleep(clients, until_ns):
    """Waits, and checks that the clients are still working."""
    while (left := until_ns - time.monotonic_ns()) > 0:
        clients.check()
        time.sleep(min(left / NS_PER_S, LOOK_S))


def _say(transactions, began, ended):
    seen, total = driver.Latencies(), 0
    for at, took in transactions:
        if began <= at < ended:
            seen.add(took)
            total += took
    if not seen.count:
        raise Failure("no transaction ended in the measured window; use more seconds, or check the clients' logs")
    driver.figure("work_per_s", seen.count / ((ended - began) / NS_PER_S), "1/s")
    driver.figure("work_done", seen.count, "count")
    driver.figure("work_mean", total / seen.count, "ns")
    driver.latency("work", seen)


class Clients:
    """Clients that write pairs of 64-bit numbers to files: the end of a transaction (monotonic clock) and its duration,
    both in nanoseconds."""

    PAIR = 16

    def __init__(self, spec, seconds):
        self.spec, self.seconds, self.began_ns = spec, seconds, 0
        self.folder = spec.scratch / "clients"

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.began_ns = time.monotonic_ns()
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts the clients."""
        raise NotImplementedError

    def check(self):
        """Raises Failure if a client has ended."""

    def finish(self):
        """Waits until the clients end, so that the files are complete."""

    def stop(self):
        """Kills clients that are still running; always called."""

    def logs(self):
        """Returns the files with the pairs."""
        return sorted(self.folder.glob("log.*"))

    def done(self):
        """Returns the number of ended transactions, without those that the clients still buffer."""
        return sum(path.stat().st_size for path in self.logs()) // self.PAIR

    def transactions(self):
        """Returns all (end, duration) pairs, client by client."""
        for path in self.logs():
            data = path.read_bytes()
            numbers = array.array("q", data[:len(data) // self.PAIR * self.PAIR])
            yield from zip(numbers[::2], numbers[1::2])


class ProgramClients(Clients):
    """One program that runs all clients and exits after their work."""

    program = None

    def server(self):
        """Returns the program as a `common.server.Server` that is not started yet."""
        raise NotImplementedError

    def start(self):
        self.program = self.server()
        self.program.log_path.unlink(missing_ok=True)
        self.program.__enter__()

    def check(self):
        if (status := self.program.process.poll()) is not None:
            raise Failure(f"{self.program.name} exited early with {status}: {self.program.last_lines(6)}")

    def finish(self):
        if (status := self.program.process.wait()) != 0:
            raise Failure(f"{self.program.name} exited with {status}: {self.program.last_lines(6)}")

    def stop(self):
        self.program.stop()


class ProcessClients(Clients):
    """Clients that are Python processes; `clients` is their number."""

    def start(self):
        fork = multiprocessing.get_context("fork")
        self.children = [fork.Process(target=self._work, args=(n,), daemon=True) for n in range(self.spec.get("clients", 4))]
        for child in self.children:
            child.start()

    def connect(self, number):
        """Returns a context whose value is a function that performs one transaction."""
        raise NotImplementedError

    def _work(self, number):
        server.die_with_parent()
        until = self.began_ns + int(self.seconds * NS_PER_S)
        try:
            with self.connect(number) as transact, open(self.folder / f"log.{number}", "wb") as log:
                now = time.monotonic_ns()
                while now < until:
                    began = now
                    transact()
                    now = time.monotonic_ns()
                    log.write(array.array("q", (now, now - began)).tobytes())
        except Exception as why:  # pylint: disable=broad-except
            (self.folder / "failure").write_text(f"client {number}: {type(why).__name__}: {why}")
            sys.exit(1)

    def _failed(self):
        if any(child.exitcode for child in self.children):
            failure = self.folder / "failure"
            raise Failure(failure.read_text() if failure.exists() else "a client was killed")

    def check(self):
        self._failed()
        if not all(child.is_alive() for child in self.children):
            raise Failure("a client ended early")

    def finish(self):
        for child in self.children:
            child.join()
        self._failed()

    def stop(self):
        for child in self.children:
            if child.is_alive():
                child.kill()
            child.join()


@contextlib.contextmanager
def nothing_to_serve(_spec):
    """`serving` for a database that is a library in its clients."""
    yield
