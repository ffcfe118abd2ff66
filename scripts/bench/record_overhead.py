#!/usr/bin/env python3
"""Reads the runs of 40-record-overhead.sh from standard input; prints a table of the pairs, and the figures."""

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


def read_runs(lines, tick):
    """For each pair, the rate and the CPU microseconds per transaction of both runs; then event rates, lost events, and counts of reads."""
    plain, recorded, events, lost, reads = {}, {}, [], 0, None
    for line in lines:
        kind, *rest = line.split()
        if kind == "reads":
            reads = int(rest[0]), int(rest[1])
            continue
        pair, rate, server_ticks, transactions, *rest = rest
        ticks = int(server_ticks)
        if kind == "recorded":
            recorder_ticks, run_events, seconds, run_lost = rest
            ticks += int(recorder_ticks)
            events.append(int(run_events) / float(seconds))
            lost += int(run_lost)
        of_kind = plain if kind == "plain" else recorded
        of_kind[int(pair)] = float(rate), ticks * 1e6 / tick / int(transactions)
    return plain, recorded, events, lost, reads


def main():
    plain, recorded, events, lost, reads = read_runs(sys.stdin, int(sys.argv[1]))
    pairs = sorted(plain)
    print(f"{'pair':>4} {'plain tx/s':>11} {'recorded':>11} {'ratio':>6} {'plain us/tx':>12} {'recorded':>9} {'ratio':>6}")
    for pair in pairs:
        (p, pc), (r, rc) = plain[pair], recorded[pair]
        print(f"{pair:>4} {p:>11.1f} {r:>11.1f} {r / p:>6.3f} {pc:>12.1f} {rc:>9.1f} {rc / pc:>6.3f}")
    for index, name, unit, bar in ((0, "throughput on sysbench", "tx/s", BAR), (1, "CPU per transaction", "us", None)):
        without, with_ = [plain[p][index] for p in pairs], [recorded[p][index] for p in pairs]
        reference, value = statistics.median(without), statistics.median(with_)
        ratio = value / reference
        low, high = interval(without, with_)
        print(f"{name}: median {reference:.1f} without, {value:.1f} with: {ratio:.3f} (95 % {low:.3f} to {high:.3f})")
        figure(name=f"record/{name}", value=round(value, 1), unit=unit, reference=round(reference, 1),
               ratio=round(ratio, 4), bar=f">= {bar}" if bar else None,
               **{"pass": ratio >= bar if bar else None}, ci95=[round(low, 4), round(high, 4)], pairs=len(pairs))
    figure(name="record/events lost", value=lost, unit="", reference=None, ratio=None, bar="0", **{"pass": lost == 0})
    figure(name="record/events", value=round(statistics.median(events)), unit="1/s", reference=None, ratio=None,
           bar=None, **{"pass": None})
    seen, counted = reads
    figure(name="record/InnoDB reads", value=seen, unit="", reference=counted, ratio=seen / counted if counted else None,
           bar="equal", **{"pass": seen == counted and counted > 0})


if __name__ == "__main__":
    main()
