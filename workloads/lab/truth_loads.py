"""The databases and clients of scripts/truth.sh (scripts/vm/truth_lab.py runs them).

A workload is a module truth_NAME.py with

        check()                         yields a line for each missing requirement
        prepare(spec, folder)           creates the database below `folder`, which has a subdirectory for each dataset
        serving(spec)                   a context in which the server runs on the datasets
        Clients(spec, seconds)          a context in which the clients work for `seconds`; see `Clients` below

    Every client records when each of its transactions ended and how long it took. So the measured window can be selected
    exactly, and the clients need not be restarted after the warm-up.
"""

import array
import contextlib
import importlib
import multiprocessing
import shutil
import sys
import time

from common import server
from common.driver import Failure

NS_PER_S = 1_000_000_000
WORKLOADS = ("postgresql", "postgresql_scan", "sqlite", "sqlite_rollback", "openldap", "etcd", "files")


def workload_named(name):
    """Returns the module of a workload."""
    if name not in WORKLOADS:
        raise Failure(f"unknown workload {name!r}; expected one of {', '.join(WORKLOADS)}")
    return importlib.import_module(f"truth_{name}")


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

    def finish(self):
        """Waits until the clients end, so that the files are complete."""

    def stop(self):
        """Kills clients that are still running; always called."""

    def logs(self):
        """Returns the files with the pairs."""
        return sorted(self.folder.glob("log.*"))

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

    def finish(self):
        for child in self.children:
            child.join()
        if any(child.exitcode for child in self.children):
            failure = self.folder / "failure"
            raise Failure(failure.read_text() if failure.exists() else "a client was killed")

    def stop(self):
        for child in self.children:
            if child.is_alive():
                child.kill()
            child.join()


@contextlib.contextmanager
def nothing_to_serve(_spec):
    """`serving` for a database that is a library in its clients."""
    yield
