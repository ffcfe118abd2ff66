"""Metrics as servers send them: seeded series of integers, one value per second, with gaps.

The kind of a metric is drawn with shares that resemble those of a monitoring agent: many values that hardly change (sizes,
limits, error counts), gauges that vary slowly, counters that grow, and some noise. There are `TEMPLATES` different series; a
metric is one of them from another second on, so that much data is cheap to generate. A file system cannot exploit this,
because no record contains two metrics and none is deduplicated.
"""

from itertools import accumulate

from .flat import NOTHING, POINT, pack

TEMPLATES = 64

# Kind, and its share of the metrics in per cent.
KINDS = (("constant", 35), ("steps", 25), ("gauge", 20), ("counter", 15), ("noise", 5))


def constant(draw, length):
    """A constant, such as a limit or an error count; half of them are 0."""
    return [draw.choice((0, draw.randrange(1 << draw.choice((8, 20, 36)))))] * length


def steps(draw, length):
    """Constant for minutes: disk space, numbers of processes and connections."""
    value, values = draw.randrange(1 << draw.choice((8, 16, 32))), []
    while len(values) < length:
        values += [value] * int(draw.expovariate(1 / 300) + 1)
        value = max(0, value + draw.randint(-40, 40))
    return values[:length]


def gauge(draw, length):
    """Varies slowly, and repeats values: load, memory, temperature."""
    moves = draw.choices((-2, -1, 0, 1, 2), (1, 4, 20, 4, 1), k=length)
    return [abs(value) for value in accumulate(moves, initial=draw.randrange(100, 100_000))][:length]


def counter(draw, length):
    """Grows in bursts: packets, requests, bytes."""
    unit, busy = draw.choice((1, 1, 64, 4096)), draw.randint(1, 30)
    growth = [unit * n for n in draw.choices((0, 0, 0, 1, 2, 3, busy), k=length)]
    return list(accumulate(growth, initial=draw.randrange(1 << 40)))[:length]


def noise(draw, length):
    """Noise: latencies in microseconds."""
    return [int(draw.lognormvariate(7, 1)) for _ in range(length)]


MAKERS = {"constant": constant, "steps": steps, "gauge": gauge, "counter": counter, "noise": noise}


class Series:
    """Repeated `length` seconds of every metric as points of 8 bytes (flat.py). Every `every`-th second has a value, the others
    have none; a share `missing` of the values is missing, in gaps of several."""

    def __init__(self, draw, length, every=1, missing=0.002):
        if length % every:
            raise ValueError(f"{length} seconds are not a multiple of {every}")
        self.length, self._every = length, every
        kinds = [kind for kind, share in KINDS for _ in range(share)]
        # A stratified draw: each seed has the shares of the table, so that ratios of two blocks do not differ
        # by chance.
        chosen = [kinds[(2 * i + 1) * len(kinds) // (2 * TEMPLATES)] for i in range(TEMPLATES)]
        draw.shuffle(chosen)
        self._templates = [self._template(draw, kind, missing) for kind in chosen]

    def _template(self, draw, kind, missing):
        count = self.length // self._every
        points = pack(MAKERS[kind](draw, count))
        for index in _gaps(draw, count, missing):
            points[index * POINT:(index + 1) * POINT] = NOTHING
        if self._every > 1:
            spread = bytearray(self.length * POINT)
            for byte in range(POINT):
                spread[byte::self._every * POINT] = points[byte::POINT]
            points = spread
        # Twice, so that a range across the end is one slice.
        return bytes(points) * 2

    def points(self, metric, first, count):
        """Returns the bytes of a metric's points from second `first`; `count` is at most `length`."""
        # Each use of a template begins at another offset.
        turn = metric // TEMPLATES * 7919 * self._every
        at = (first + turn) % self.length * POINT
        return self._templates[metric % TEMPLATES][at:at + count * POINT]


def _gaps(draw, count, share):
    gaps, wanted = set(), int(count * share)
    while len(gaps) < wanted:
        begin = draw.randrange(count)
        gaps.update(range(begin, min(count, begin + draw.randint(1, 10))))
    return gaps
