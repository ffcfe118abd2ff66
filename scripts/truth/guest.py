"""Compares predictions with runs of a database in the guest (scripts/truth/guest.sh), and prints tables.

usage: guest.py DIR SETTINGS

A unit of work is what the workload's load logs: a transaction.
"""

import json
import statistics
import struct
import sys
from pathlib import Path

SECTOR = 512
TICKS = 100  # a second
METRICS = {"rate": "work rate", "written": "bytes written", "read": "bytes read", "space": "space"}
# Smaller changes of the work rate are not compared by sign.
CLEAR = 0.05
DIRECT = "tank/iostats:direct_read_bytes"


def sample(path):
    """Counters by name; those that have several numbers, as a list."""
    found = {}
    for line in path.read_text().splitlines():
        key, *values = line.split()
        numbers = [float(value) for value in values if value.replace(".", "").isdigit()]
        found[key] = numbers[0] if len(numbers) == 1 else numbers
    return found


def ends(path):
    """The times in seconds at which units of work ended."""
    return [time / 1e9 for time, _ in struct.iter_unpack("<qq", path.read_bytes())]


def units_between(times, first, last):
    return sum(first["uptime"] < time <= last["uptime"] for time in times)


def run(directory, name):
    """One run of the database. Device bytes are those of the whole load and of its data that were written later, for each unit of work."""
    begin, first, last, end = (sample(directory / f"{name}.{n}") for n in range(4))
    times = ends(directory / f"{name}.log")
    seconds, number = last["uptime"] - first["uptime"], len(times)
    window = units_between(times, first, last)
    disk = [b - a for a, b in zip(begin["disk"], end["disk"], strict=True)]
    cpu = [b - a for a, b in zip(first["cpu"], last["cpu"], strict=True)]
    hits = {key: last[f"arcstats:demand_data_{key}"] - first[f"arcstats:demand_data_{key}"] for key in ("hits", "iohits", "misses")}
    user_ms, system_ms = 1000 * (cpu[0] + cpu[1]) / TICKS / window, 1000 * (cpu[2] + cpu[5] + cpu[6]) / TICKS / window
    return {
        "rate": window / seconds,
        "written": disk[6] * SECTOR / number,
        "read": disk[2] * SECTOR / number,
        "space": float((directory / f"{name}.space").read_text()),
        "user_ms": user_ms,
        "system_ms": system_ms,
        "cpu_ms": user_ms + system_ms,
        "idle": (cpu[3] + cpu[4]) / TICKS / seconds,
        "reads": disk[0] / number,
        "writes": disk[4] / number,
        "direct": (end[DIRECT] - begin[DIRECT]) / number,
        "arc_hits": 100 * (1 - hits["misses"] / max(sum(hits.values()), 1)),
    }


def recorded_rate(directory):
    """Units of work for each second of the recording."""
    first, last = (sample(directory / f"recorded.{n}") for n in (1, 2))
    return units_between(ends(directory / "recorded.log"), first, last) / (last["uptime"] - first["uptime"])


def predicted(path, recorded, length):
    """The prediction of a setting, for each unit of work, if `recorded` units were done in each of the recording's `length` seconds."""
    trial = json.loads(path.read_text())
    # Bytes and CPU time are those of the whole recording, the work rate is that of a part of it.
    units = recorded * length * trial["work_share"]
    vdev = trial["vdev"]
    return {
        "rate": trial["work_rate"] * recorded,
        "written": vdev["write_bytes"] / units,
        "read": vdev["read_bytes"] / units,
        "space": trial["allocated_bytes"],
        "cpu_ms": 1000 * trial["cpu_seconds"] / units,
        "application_ms": 1000 * trial["application_cpu_seconds"] / units,
        "idle": 1 - trial["cpu_seconds"] / trial["seconds"],
    }


def percent(new, old):
    """The change in per cent; empty if there is none because nothing is read today."""
    return f"{100 * (new / old - 1):+.0f}" if old else ""


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("| --- |" + " --: |" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def agreement(pairs):
    """Signs, pairs in order and the median error of (predicted, measured) ratios to today's rate."""
    clear = [(p, m) for p, m in pairs if abs(m - 1) > CLEAR]
    every = [(1.0, 1.0), *pairs]
    ordered = [(a, b) for i, a in enumerate(every) for b in every[:i] if abs(a[1] / b[1] - 1) > CLEAR]
    errors = [100 * abs(p - m) for p, m in pairs]
    return (f"Signs: {sum((p > 1) == (m > 1) for p, m in clear)} of {len(clear)} clear changes. "
            f"Order: {sum((a[0] > b[0]) == (a[1] > b[1]) for a, b in ordered)} of {len(ordered)} clear pairs. "
            f"Errors of the work rate: median {statistics.median(errors):.1f} points, largest {max(errors):.1f}.")


def compared(name, today, ours, truth):
    """A row with the predicted and the measured changes of a setting; for today's, the predicted and the measured rate."""
    mine, theirs = ours[name], truth[name]
    if name == today:
        cells = [f"{mine['rate']:.0f}/s", f"{theirs['rate']:.0f}/s", *[""] * 7]
    else:
        cells = [text for key in METRICS for text in (percent(mine[key], ours[today][key]), percent(theirs[key], truth[today][key]))]
        cells.insert(2, f"{100 * (mine['rate'] / ours[today]['rate'] - theirs['rate'] / truth[today]['rate']):+.0f}")
    cpu = [f"{mine['application_ms']:.2f} + {mine['cpu_ms'] - mine['application_ms']:.2f} = {mine['cpu_ms']:.2f}",
           f"{theirs['user_ms']:.2f} + {theirs['system_ms']:.2f} = {theirs['cpu_ms']:.2f}", percent(mine["cpu_ms"], theirs["cpu_ms"]),
           f"{100 * mine['idle']:.0f}", f"{100 * theirs['idle']:.0f}"]
    return [name, *cells[:3], *cpu, *cells[3:]]


def load(directory, settings):
    """The figures of each run, the measured medians, and the predictions, by the setting; today's, the first, first."""
    names = [line.split()[0] for line in settings.read_text().splitlines() if line and not line.startswith("#")]
    measured = directory / "measured"
    runs = {name: [run(measured, path.name[:-6]) for path in sorted(measured.glob(f"{name}.[0-9].space"))] for name in names}
    runs = {name: every for name, every in runs.items() if every}
    truth = {name: {key: statistics.median(one[key] for one in every) for key in every[0]} for name, every in runs.items()}
    paths = {name: directory / "predicted" / f"{name}.json" for name in truth}
    if not paths[names[0]].exists():
        return runs, truth, {}
    recorded = recorded_rate(directory / "recorded")
    length = float((directory / "recorded" / "seconds").read_text())
    return runs, truth, {name: predicted(path, recorded, length) for name, path in paths.items() if path.exists()}


def main():
    runs, truth, ours = load(Path(sys.argv[1]), Path(sys.argv[2]))
    table(["setting", "units/s, each run", "user, system ms", "idle, %", "reads, writes", "KB read", "KB written", "direct KB", "ARC hits, %",
           "space, MB"],
          [[name, ", ".join(f"{one['rate']:.1f}" for one in runs[name]), f"{t['user_ms']:.2f}, {t['system_ms']:.2f}",
            f"{100 * t['idle']:.0f}", f"{t['reads']:.2f}, {t['writes']:.2f}", f"{t['read'] / 1000:.1f}", f"{t['written'] / 1000:.1f}",
            f"{t['direct'] / 1000:.1f}", f"{t['arc_hits']:.1f}", f"{t['space'] / 1e6:.0f}"] for name, t in truth.items()])
    if not ours:
        return
    today = next(iter(truth))
    table(["setting", "work rate: predicted, %", "measured, %", "error, points", "CPU ms: predicted, application + engine",
           "measured, user + system", "difference, %", "idle, %: predicted", "measured", "written: predicted, %", "measured, %",
           "read: predicted, %", "measured, %", "space: predicted, %", "measured, %"],
          [compared(name, today, ours, truth) for name in ours])
    print(f"The recorded rate is {recorded_rate(Path(sys.argv[1]) / 'recorded'):.1f} units/s.")
    if len(ours) > 1:
        print(agreement([(ours[name]["rate"] / ours[today]["rate"], truth[name]["rate"] / truth[today]["rate"])
                         for name in ours if name != today]))


if __name__ == "__main__":
    main()
