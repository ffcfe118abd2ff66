"""Ingest and queries against a store: as fast as it goes, at a steady rate, or queries alone.

Time in the data passes faster than real time: with 600 metrics and a rate of 60,000 points per second, a hundred times. Each
metric's points are written together when there are `cache_points` of them; the metrics' turns are spread evenly, as in a
store that has been running for a while.
"""

import threading
import time

from common import driver

from . import flat, series, victoria

ROLE = "db"
VICTORIA_BATCH_S = 60
RUN_S = 10.0


class Flat:
    """DalmatinerDB's files. One thread at a time, because a partition has one writer in DalmatinerDB."""

    def __init__(self, spec):
        self._store = flat.Store(spec.path(ROLE), spec.get("points_per_file", flat.POINTS_PER_FILE))
        self._cache = spec.get("cache_points", flat.CACHE_POINTS)
        self._lock = threading.Lock()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._store.close()
        driver.sync_tree(self._store.root)

    def due(self, second, metrics, last):
        """Yields the writes after this second: metric, first second, number of points."""
        now = second + 1
        for metric in range(0 if last else -now % self._cache, metrics, 1 if last else self._cache):
            count = min((now + metric) % self._cache or self._cache, now)
            yield metric, now - count, count

    def write(self, batch, times):
        for metric, first, data in batch:
            with self._lock, times.timed():
                self._store.write(metric, first, data)

    def query(self, metric, first, count):
        """Returns a period of a metric in the store's format."""
        with self._lock:
            return self._store.read(metric, first, count)

    @staticmethod
    def count(answer):
        """Returns the number of points in an answer."""
        return sum(value is not None for value in flat.unpack(answer))


class Victoria:
    """VictoriaMetrics: one request with all metrics' points of a minute."""

    def __init__(self, spec):
        self._store = victoria.Victoria(spec.path(ROLE), spec.scratch, spec.get("memory", 128 << 20))

    def __enter__(self):
        self._store.__enter__()
        return self

    def __exit__(self, *_):
        self._store.close()
        driver.sync_tree(self._store.root)

    def due(self, second, metrics, last):
        have = (second + 1) % VICTORIA_BATCH_S
        if have == 0 or last:
            count = have or VICTORIA_BATCH_S
            yield from ((metric, second + 1 - count, count) for metric in range(metrics))

    def write(self, batch, times):
        with times.timed():
            self._store.write(batch)

    def query(self, metric, first, count):
        return self._store.read(metric, first, count)

    @staticmethod
    def count(answer):
        return victoria.count(answer)


STORES = {"flat": Flat, "victoria": Victoria}


def open_store(spec):
    """Returns the store that the parameter `store` names, not started yet."""
    name = spec.get("store")
    if name not in STORES:
        raise driver.Failure(f"unknown store {name!r}; expected one of {', '.join(STORES)}")
    if name == "victoria":
        driver.version("victoria-metrics", victoria.version())
    return STORES[name](spec)


class Load:
    """The metrics of a specification, and the second at which a phase begins."""

    def __init__(self, spec):
        self.metrics, self.seconds = spec.get("metrics"), spec.get("seconds")
        self.every = spec.get("every", 1)
        length = spec.get("template_s", 36_000)
        self.series = series.Series(spec.random("series"), length, self.every)

    def samples(self):
        """Returns samples of the data in the format of the flat files, for the entropy."""
        length = min(self.seconds, 16_384)
        for metric in range(min(self.metrics, series.TEMPLATES)):
            yield self.series.points(metric, 0, length)

    def feed(self, store, begin, end, progress, times, pace=None):
        """Passes seconds `begin`…`end` to the store. `pace(second)` waits until that second may begin, or returns false if the
        time is over: data that the store still buffers is then lost."""
        places = 0
        for second in range(begin, end):
            if pace and not pace(second):
                break
            batch = []
            for metric, first, count in store.due(second, self.metrics, last=second + 1 == end):
                # Data before `begin` was written at the end of the previous phase.
                late = max(0, begin - first)
                batch.append((metric, first + late, self.series.points(metric, first + late, count - late)))
            if batch:
                store.write(batch, times)
                places += sum(len(data) for _, _, data in batch) // flat.POINT
                progress.set(places // self.every)


def ingest(spec):
    """Writes all data at full speed; measured until it is on disk and the store is closed."""
    load, times = Load(spec), driver.Latencies()
    driver.say_entropy(load.samples())
    total = load.metrics * load.seconds // load.every
    with driver.Progress(total, "points") as progress:
        store = open_store(spec)
        with driver.measured():
            began = time.monotonic()
            with store:
                load.feed(store, 0, load.seconds, progress, times)
            took = time.monotonic() - began
    driver.latency("write", times)
    driver.figure("points", total, "count")
    driver.figure("points_per_s", total / took, "1/s")


class Pace:
    """Lets seconds of the data begin at a steady rate, and measures how late the store is; true for `run_s` seconds and one
    more second, in which a store may catch up."""

    def __init__(self, first, per_second, run_s):
        self._first, self._per_second, self._began, self.late = first, per_second, time.monotonic(), 0.0
        self._over = self._began + run_s + 1

    def __call__(self, second):
        due = self._began + (second - self._first) / self._per_second
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        else:
            self.late = max(self.late, -wait)
        return time.monotonic() < self._over


def steady(spec):
    """Writes `points_per_s` points for `run_s` seconds, starting where `ingest` ended, and queries `queries_per_s` times."""
    load = Load(spec)
    speed = spec.get("points_per_s", 50_000.0) * load.every / load.metrics
    begin, run_s = load.seconds, spec.get("run_s", RUN_S)
    end = begin + int(speed * run_s)
    with open_store(spec) as store, driver.Progress(load.metrics * (end - begin) // load.every, "points") as progress:
        with driver.measured():
            writes, reads, late = run(spec, load, store, (begin, end), speed, progress)
    driver.latency("write", writes)
    driver.latency("query", reads)
    driver.figure("late_s", late, "s")


def run(spec, load, store, period, speed, progress):
    """Passes the seconds of `period` to the store at `speed` seconds of data per second, beside the queries, for `run_s` seconds.
    Returns the latencies of writes and of queries, and the longest delay."""
    writes, reads, ended = driver.Latencies(), driver.Latencies(), threading.Event()
    asker = threading.Thread(target=ask, args=(spec, load, store, reads, ended), daemon=True)
    pace = Pace(period[0], speed, spec.get("run_s", RUN_S))
    asker.start()
    try:
        load.feed(store, *period, progress, writes, pace)
    finally:
        ended.set()
        asker.join()
    return writes, reads, pace.late


def ask(spec, load, store, reads, ended):
    """Queries windows of metrics at a steady rate until `ended`; half of them are the latest one that `ingest` wrote."""
    draw, window = spec.random("queries"), min(spec.get("window_s", 3600), load.seconds)
    rate, number, began = spec.get("queries_per_s", 20.0), 0, time.monotonic()
    while not ended.wait(max(0.0, began + number / rate - time.monotonic())):
        first = draw.choice((load.seconds - window, draw.randrange(load.seconds - window + 1)))
        with reads.timed():
            store.query(draw.randrange(load.metrics), first, window)
        number += 1


def query(spec):
    """Queries `queries` windows of random metrics at random times, one after another; checks that every point exists."""
    load, reads, draw = Load(spec), driver.Latencies(), spec.random("queries")
    window, wanted = min(spec.get("window_s", 3600), load.seconds), spec.get("queries", 500)
    with open_store(spec) as store, driver.measured(), driver.Progress(wanted, "queries") as progress:
        for _ in range(wanted):
            metric, first = draw.randrange(load.metrics), draw.randrange(load.seconds - window + 1)
            with reads.timed():
                answer = store.query(metric, first, window)
            check(load, metric, first, window, store.count(answer))
            progress.add()
    driver.latency("query", reads)


def check(load, metric, first, window, found):
    data = load.series.points(metric, first, min(window, load.series.length))
    wanted = sum(value is not None for value in flat.unpack(data))
    if window <= load.series.length and found != wanted:
        raise driver.Failure(f"metric {metric} has {found} points from second {first}, but {wanted} were written")
