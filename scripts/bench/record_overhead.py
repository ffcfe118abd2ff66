#!/usr/bin/env python3
"""Sums up the runs of 40-record-overhead.sh (standard input): the table of pairs and the figures."""

import json
import random
import statistics
import sys

BAR = 0.95


def interval(plain, recorded, rounds=2000):
    """95 % bootstrap interval of the ratio of medians, resampling whole pairs."""
    draw = random.Random(1)
    pairs = list(zip(plain, recorded))
    ratios = []
    for _ in range(rounds):
        sample = [draw.choice(pairs) for _ in pairs]
        ratios.append(statistics.median(r for _, r in sample) / statistics.median(p for p, _ in sample))
    ratios.sort()
    return ratios[int(0.025 * rounds)], ratios[int(0.975 * rounds)]


def figure(**fields):
    print("BENCH " + json.dumps(fields))


def main():
    plain, recorded, events, lost = {}, {}, [], 0
    for line in sys.stdin:
        kind, pair, rate, *rest = line.split()
        if kind == "plain":
            plain[int(pair)] = float(rate)
        else:
            recorded[int(pair)] = float(rate)
            events.append(int(rest[0]) / float(rest[1]))
            lost += int(rest[2])
    pairs = sorted(plain)
    without, with_ = [plain[p] for p in pairs], [recorded[p] for p in pairs]
    print(f"{'pair':>4} {'plain tx/s':>11} {'recorded':>11} {'ratio':>6}")
    for pair, p, r in zip(pairs, without, with_):
        print(f"{pair:>4} {p:>11.1f} {r:>11.1f} {r / p:>6.3f}")
    reference, value = statistics.median(without), statistics.median(with_)
    ratio = value / reference
    low, high = interval(without, with_)
    print(f"median {reference:.1f} without, {value:.1f} with: {ratio:.3f} (95 % interval {low:.3f} to {high:.3f})")
    figure(name="record/throughput on sysbench", value=round(value, 1), unit="tx/s", reference=round(reference, 1),
           ratio=round(ratio, 4), bar=f">= {BAR}", **{"pass": ratio >= BAR}, ci95=[round(low, 4), round(high, 4)],
           pairs=len(pairs))
    figure(name="record/events lost", value=lost, unit="", reference=None, ratio=None, bar="0", **{"pass": lost == 0})
    figure(name="record/events", value=round(statistics.median(events)), unit="1/s", reference=None, ratio=None,
           bar=None, **{"pass": None})


if __name__ == "__main__":
    main()
