"""The highest rate of points that a store holds while it answers queries, found by bisection."""

import time

from common import driver

from . import flat, steady

# A rate is held if the ingest is never later than this. A store that writes a metric's points together needs some slack.
SLACK_S = 0.25
# The bisection ends when the bounds are this close.
CLOSE = 1.1
# The search for a rate that is held ends at this share of the first one.
LEAST = 1 / 64
GENERATE_S = 0.5


def highest(rate, holds):
    """Returns the highest rate for which `holds(rate)` is true, within `CLOSE`. Begins with `rate`, which may be held or not; returns
    0.0 if the share `LEAST` of it is not held either."""
    least, low, high = rate * LEAST, 0.0, 0.0
    while not (low and high and high / low < CLOSE):
        if holds(rate):
            low = rate
        else:
            high = rate
        if high and high <= least:
            return 0.0
        rate = (low * high) ** 0.5 if low and high else low * 2 or high / 2
    return low


def capacity(spec):
    """Tries rates for `run_s` seconds each, each with data that follows the one before, beginning with `points_per_s`."""
    load = steady.Load(spec)
    run_s, begin = spec.get("run_s", steady.RUN_S), load.seconds
    first = spec.get("points_per_s", 50_000.0)
    best = {}
    with steady.open_store(spec) as store, driver.Progress(None, "points") as progress, driver.measured():

        def holds(rate):
            nonlocal begin
            speed = rate * load.every / load.metrics
            end = begin + max(1, int(speed * run_s))
            writes, reads, late = steady.run(spec, load, store, (begin, end), speed, progress)
            # What was not written in time is lost: the next attempt begins after it.
            begin = end
            driver.log(f"{rate:.0f} points per second: {late:.2f} s late")
            if late <= SLACK_S:
                best["latencies"] = writes, reads
            return late <= SLACK_S

        rate = highest(first, holds)
    if rate == 0.0:
        raise driver.Failure(f"the store does not even hold {first * LEAST:.0f} points per second")
    writes, reads = best["latencies"]
    driver.latency("write", writes)
    driver.latency("query", reads)
    driver.figure("held_per_s", rate, "1/s")
    driver.figure("generated_per_s", generated(load, store), "1/s")


class Discard:
    """Takes the writes of a store, and drops them."""

    def __init__(self, store):
        self.due, self.points = store.due, 0

    def write(self, batch, _):
        self.points += sum(len(data) for _, _, data in batch) // flat.POINT


def generated(load, store):
    """Returns the points per second that this driver generates without a store, which no store can exceed."""
    discard, began = Discard(store), time.monotonic()
    over = began + GENERATE_S
    load.feed(discard, 0, 1 << 40, driver.Progress(None, "points"), None, lambda _: time.monotonic() < over)
    return discard.points / load.every / (time.monotonic() - began)
