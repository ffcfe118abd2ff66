"""What every driver of the lab shares: the spec it is given, the lines it says, servers, latencies.

The protocol is in docs/lab.md. A driver is

    from common import driver

    def load(spec): ...

    driver.main({"load": load}, check)

where `check` yields a line for each thing that is missing. In the phases, `Failure` says in a sentence what failed and
what to do.
"""

import contextlib
import json
import os
import random
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
    """What failed and what to do, in one sentence; ends the phase with exit code 1."""


# ---- the spec ----


class Spec:
    """What one phase is given: see docs/lab.md. Paths are `pathlib.Path`s; parameters are asked for by name."""

    def __init__(self, given):
        if given.get("protocol") != PROTOCOL:
            raise Failure(f"this driver speaks protocol {PROTOCOL}, and was asked in {given.get('protocol')!r}")
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
        """The dataset of this role."""
        if role not in self.paths:
            raise Failure(f"the campaign gives no dataset {role!r}; this driver writes to it: add [datasets.{role}]")
        return self.paths[role]

    def get(self, name, default=None):
        """A parameter; without a default it has to be there, and with one it has to be of the default's type."""
        value = self.parameters.get(name, default)
        if value is None:
            raise Failure(f"the parameter {name!r} is missing: give it in the scale or in the study's parameters")
        if isinstance(default, float) and isinstance(value, int):
            value = float(value)
        if default is not None and type(value) is not type(default):
            raise Failure(f"the parameter {name} = {value!r} should be of the kind of {default!r}")
        return value

    def random(self, what=""):
        """A generator that depends on the seed and on what it is for, so that one use does not shift another."""
        return random.Random(f"{self.seed}/{what}")

    def cached(self, name, make):
        """A file of the cache that `make(temporary_path)` writes if it is not there; the name says all its parameters."""
        path = self.cache / name
        if not path.exists():
            self.cache.mkdir(parents=True, exist_ok=True)
            temporary = self.cache / f".{name}.{os.getpid()}"
            try:
                make(temporary)
                sync_file(temporary)
                temporary.rename(path)
            finally:
                temporary.unlink(missing_ok=True)
        return path


# ---- what it says ----

_out = 1


def _say(line):
    # One write, so that lines of several threads or processes do not mix.
    data = (json.dumps(line) + "\n").encode()
    while data:
        data = data[os.write(_out, data):]


def passed_on(line):
    """A line of another driver, as that said it."""
    _say(line)


def log(text):
    """A line worth keeping with the results."""
    _say({"log": text})


def figure(name, value, unit):
    """A result of this phase."""
    assert unit in UNITS, unit
    _say({"figure": {"name": name, "value": value, "unit": unit}})


def series(name, value, unit):
    """A point in time, now."""
    assert unit in UNITS, unit
    _say({"series": {"name": name, "value": value, "unit": unit}})


def version(name, value):
    """What is being run, as that says itself."""
    _say({"version": {"name": name, "value": value}})


def latency(op, recorder):
    """The latencies of one kind of call, at the phase's end; says nothing if there was no call."""
    if recorder.count:
        _say({"latency": {"op": op, **recorder.summary()}})


@contextlib.contextmanager
def measured():
    """What is inside is measured: servers are started before and stopped after."""
    _say({"measure": "start"})
    try:
        yield
    finally:
        _say({"measure": "stop"})


class Progress:
    """Work done, said twice a second by a thread of its own for as long as the `with` lasts; `add` is cheap.

    `of` may be None, where the amount of work is not known. `watch` is a function that returns the work done so far, for
    work that somebody else counts.
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
            # It may fail while a server starts or ends; the next tick asks again.
            with contextlib.suppress(OSError, ValueError):
                self.done = self._watch()
        line = {"done": self.done, "unit": self.unit}
        _say({"progress": line if self.of is None else {**line, "of": self.of}})


class Latencies:
    """Times in nanoseconds, counted in buckets of 1/64 of their power of two: percentiles within 1.6 %."""

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
        """Takes those of another thread or process in; an instance can be pickled."""
        self.buckets.update(other.buckets)
        self.count += other.count
        self.max = max(self.max, other.max)

    def percentile(self, share):
        """The time that `share` (0…1) of the calls took at most; 0 if there were none."""
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
    """Bytes from `16K`, `1.5G` or a number; suffixes are binary, as ZFS takes them."""
    text = str(text).strip().upper().removesuffix("IB").removesuffix("B")
    shift = "KMGTP".find(text[-1:]) + 1 if text else 0
    try:
        return int(float(text[:-1] if shift else text) * (1 << 10 * shift))
    except ValueError:
        raise Failure(f"{text!r} is not a size; write 16K, 1G or bytes") from None


def sync_file(path):
    """A file's or a directory's bytes are on the device."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_tree(path):
    """Everything below `path` is on the device."""
    for folder, _, names in os.walk(path):
        for name in names:
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                sync_file(full)
        sync_file(folder)


def entropy(samples):
    """Bits a byte (order 0) of these bytes objects taken together, and how many times smaller gzip -6 makes them.

    Some megabytes that are drawn from all of the data are enough; each sample is compressed by itself, as a record is.
    None, if there is not a byte.
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
    """Says `data_entropy` and `data_gzip6_ratio` of these bytes objects, as `entropy` has them."""
    if found := entropy(samples):
        figure("data_entropy", found[0], "count")
        figure("data_gzip6_ratio", found[1], "ratio")


def samples_of(path, pick, pieces=32, length=128 << 10):
    """Up to `pieces` aligned pieces of a file, at places that `pick` (a random.Random) draws."""
    size = os.path.getsize(path)
    places = range(0, max(size, 1), length)
    with open(path, "rb") as file:
        for place in sorted(pick.sample(places, min(pieces, len(places)))):
            file.seek(place)
            yield file.read(length)


# ---- the program ----


def checked_parameters():
    """For `--check`: the parameters of the study that is to be run, from stdin; none where it is a terminal or empty."""
    text = "" if sys.stdin.isatty() else sys.stdin.read()
    return json.loads(text) if text.strip() else {}


def main(phases, check):
    """The driver's command line. `phases`: name → function of a Spec; `check()` yields what is missing."""
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
        raise Failure(f"there is no phase {spec.phase!r}; this driver has {', '.join(phases)}")
    spec.scratch.mkdir(parents=True, exist_ok=True)
    phases[spec.phase](spec)


def _on_sigterm(*_):
    # An exception, so that every `with` and `finally` on the way out stops what it started. Only the first one counts:
    # a second would interrupt the stopping.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def _keep_stdout():
    """What the driver's children print goes to stderr: stdout is the protocol's."""
    global _out
    _out = os.dup(1)
    os.dup2(2, 1)
