"""The parts that all drivers of the lab share: the specification, the messages, servers and latencies.

docs/lab.md documents the protocol. A driver is

    from common import driver

    def load(spec): ...

    driver.main({"load": load}, check)

where `check` yields a line for each missing requirement. A phase raises `Failure` with a sentence that says what failed
and what to do.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import zlib
from collections import Counter
from math import log2
from pathlib import Path

PROTOCOL = 1
UNITS = {"bytes", "s", "ns", "1/s", "bytes/s", "ratio", "count", "percent"}
TICK_S = 0.5


class Failure(Exception):
    """Ends the phase with exit code 1; the message says in one sentence what failed and what to do."""


# ---- the specification ----


class Spec:
    """The input of one phase (docs/lab.md). Paths are `pathlib.Path`s; `get` returns parameters by name."""

    def __init__(self, given):
        if given.get("protocol") != PROTOCOL:
            raise Failure(f"this driver supports protocol {PROTOCOL}, not {given.get('protocol')!r}")
        self.phase = given["phase"]
        self.parameters = given.get("parameters", {})
        self.paths = {role: Path(path) for role, path in given.get("paths", {}).items()}
        self.scratch = Path(given["scratch"])
        self.cache = Path(given.get("cache") or self.scratch / "cache")
        self.tools = Path(given.get("tools") or "target/lab")
        self.seed = int(given.get("seed", 0))
        # The process that serves the datasets; None on a directory.
        self.engine_pid = given.get("engine_pid")

    def path(self, role):
        """Returns the path of a role's dataset."""
        if role not in self.paths:
            raise Failure(f"the campaign has no dataset {role!r}, which this driver requires: add [datasets.{role}]")
        return self.paths[role]

    def get(self, name, default=None):
        """Returns a parameter. It is required if there is no default; otherwise it must have the default's type."""
        value = self.parameters.get(name, default)
        if value is None:
            raise Failure(f"the parameter {name!r} is missing: set it in the scale or in the study's parameters")
        if isinstance(default, float) and isinstance(value, int):
            value = float(value)
        if default is not None and type(value) is not type(default):
            raise Failure(f"the parameter {name} = {value!r} must have the type of {default!r}")
        return value

    def random(self, what=""):
        """Returns a generator that depends on the seed and on its purpose `what`, so that uses do not affect each other."""
        return random.Random(f"{self.seed}/{what}")

    def cached(self, name, make):
        """Returns a file of the cache, which `make(temporary_path)` writes if it is missing; its name contains all parameters."""
        path = self.cache / name
        if not path.exists():
            with created(path) as temporary:
                make(temporary)
                sync_file(temporary)
        return path


@contextlib.contextmanager
def created(path):
    """Yields a temporary path beside `path`, and renames the file or directory that was made there to `path`. If another process,
    perhaps on another machine that shares the directory, has made `path` meanwhile, its version stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    _remove(temporary)
    try:
        yield temporary
        try:
            temporary.rename(path)
        except OSError:
            # A directory does not replace another one that has files.
            if not path.is_dir():
                raise
    finally:
        _remove(temporary)


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


# ---- messages ----

_out = 1


def _say(line):
    # One write, so that lines of several threads or processes do not mix.
    data = (json.dumps(line) + "\n").encode()
    while data:
        data = data[os.write(_out, data):]


def log(text):
    """Prints a line that is kept with the results."""
    _say({"log": text})


def figure(name, value, unit):
    """Prints a figure of this phase."""
    assert unit in UNITS, unit
    _say({"figure": {"name": name, "value": value, "unit": unit}})


def series(name, value, unit):
    """Prints the present value of a series."""
    assert unit in UNITS, unit
    _say({"series": {"name": name, "value": value, "unit": unit}})


def version(name, value):
    """Prints the version of a program that the driver runs."""
    _say({"version": {"name": name, "value": value}})


def latency(op, recorder):
    """Prints the latencies of one kind of call at the end of the phase; prints nothing if there was no call."""
    if recorder.count:
        _say({"latency": {"op": op, **recorder.summary()}})


@contextlib.contextmanager
def measured():
    """Marks the measured window: servers are started before it and stopped after it."""
    _say({"measure": "start"})
    try:
        yield
    finally:
        _say({"measure": "stop"})


class Progress:
    """Prints the work done twice a second in a thread, as long as the `with` block lasts; `add` is cheap.

    `of` is None if the total is not known. `watch` is a function that returns the work done so far, for work that another
    program counts.
    """

    def __init__(self, of, unit, watch=None):
        self.of, self.unit, self.done = of, unit, 0
        self._watch, self._lock, self._ended = watch, threading.Lock(), threading.Event()

    def add(self, n=1):
        with self._lock:
            self.done += n

    def set(self, done):
        self.done = done

    def __enter__(self):
        self._tick = threading.Thread(target=self._run, daemon=True)
        self._say()
        self._tick.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._tick.join()
        self._say()

    def _run(self):
        while not self._ended.wait(TICK_S):
            self._say()

    def _say(self):
        if self._watch:
            # The function may fail while a server starts or ends; the next tick calls it again.
            with contextlib.suppress(OSError, ValueError):
                self.done = self._watch()
        line = {"done": self.done, "unit": self.unit}
        _say({"progress": line if self.of is None else {**line, "of": self.of}})


class Latencies:
    """Counts times in nanoseconds in buckets of 1/64 of their power of two: percentiles are accurate within 1.6 %."""

    BITS = 6

    def __init__(self):
        self.buckets, self.count, self.max = Counter(), 0, 0

    def add(self, ns, calls=1):
        self.buckets[self._bucket(ns)] += calls
        self.count += calls
        if ns > self.max:
            self.max = ns

    @contextlib.contextmanager
    def timed(self):
        began = time.perf_counter_ns()
        yield
        self.add(time.perf_counter_ns() - began)

    def merge(self, other):
        """Adds the latencies of another thread or process; instances can be pickled."""
        self.buckets.update(other.buckets)
        self.count += other.count
        self.max = max(self.max, other.max)

    def percentile(self, share):
        """Returns the time in ns that `share` (0…1) of the calls did not exceed; 0 if there were no calls."""
        wanted, seen = share * self.count, 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return min(self._middle(bucket), self.max)
        return 0

    def summary(self):
        at = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
        return {"count": self.count, **{name: self.percentile(s) for name, s in at.items()}, "max": self.max}

    @classmethod
    def _bucket(cls, ns):
        shift = max(int(ns).bit_length() - cls.BITS - 1, 0)
        return (shift << (cls.BITS + 1)) + (int(ns) >> shift)

    @classmethod
    def _middle(cls, bucket):
        shift = bucket >> (cls.BITS + 1)
        low = (bucket & ((1 << (cls.BITS + 1)) - 1)) << shift
        return low + ((1 << shift) >> 1)


# ---- files and data ----


def size(text):
    """Converts `16K`, `1.5G` or a number to bytes; suffixes are binary, as in ZFS."""
    text = str(text).strip().upper().removesuffix("IB").removesuffix("B")
    shift = "KMGTP".find(text[-1:]) + 1 if text else 0
    try:
        return int(float(text[:-1] if shift else text) * (1 << 10 * shift))
    except ValueError:
        raise Failure(f"invalid size {text!r}; expected for example 16K, 1G or bytes") from None


def sync_file(path):
    """Waits until the content of a file or directory is on the device."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_tree(path):
    """Waits until everything below `path` is on the device."""
    for folder, _, names in os.walk(path):
        for name in names:
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                sync_file(full)
        sync_file(folder)


def entropy(samples):
    """Returns the order-0 entropy of these bytes objects in bits per byte, and the compression ratio of gzip -6.

    Some megabytes drawn from all of the data are enough. Each sample is compressed separately, like a record. Returns None
    if there are no bytes.
    """
    counts, plain, packed = Counter(), 0, 0
    for sample in samples:
        counts.update(sample)
        plain += len(sample)
        packed += len(zlib.compress(sample, 6))
    if not plain:
        return None
    return sum(n / plain * log2(plain / n) for n in counts.values()), plain / packed


def say_entropy(samples):
    """Prints the results of `entropy` as the figures `data_entropy` and `data_gzip6_ratio`."""
    if found := entropy(samples):
        figure("data_entropy", found[0], "count")
        figure("data_gzip6_ratio", found[1], "ratio")


def samples_of(path, pick, pieces=32, length=128 << 10):
    """Yields up to `pieces` aligned pieces of a file, at offsets that `pick` (a random.Random) draws."""
    size = os.path.getsize(path)
    places = range(0, max(size, 1), length)
    with open(path, "rb") as file:
        for place in sorted(pick.sample(places, min(pieces, len(places)))):
            file.seek(place)
            yield file.read(length)


# ---- the program ----


def main(phases, check):
    """The driver's command line. `phases` maps names to functions of a Spec; `check()` yields missing requirements."""
    arguments = sys.argv[1:]
    if arguments == ["--check"]:
        missing = list(check())
        print(*missing, sep="\n", end="\n" if missing else "")
        sys.exit(1 if missing else 0)
    if arguments != ["run"]:
        sys.exit(f"usage: {os.path.basename(sys.argv[0])} --check | run (with the phase as JSON on stdin; docs/lab.md)")
    signal.signal(signal.SIGTERM, _on_sigterm)
    _keep_stdout()
    try:
        _run(phases)
    except (Failure, OSError) as why:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {why}")


def _run(phases):
    spec = Spec(json.load(sys.stdin))
    if spec.phase not in phases:
        raise Failure(f"unknown phase {spec.phase!r}; expected one of {', '.join(phases)}")
    spec.scratch.mkdir(parents=True, exist_ok=True)
    phases[spec.phase](spec)


def _on_sigterm(*_):
    # The exception makes every `with` and `finally` block stop what it started. Further signals are ignored,
    # because they would interrupt the cleanup.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def _keep_stdout():
    """Redirects the output of child processes to stderr, because stdout carries the protocol."""
    global _out
    _out = os.dup(1)
    os.dup2(2, 1)
