"""Compares predictions with runs of the database in the guest (scripts/truth/guest.sh), and prints tables.

usage: guest.py DIR SETTINGS
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


def sample(path):
    """Counters by name; those that have several numbers, as a list."""
    found = {}
    for line in path.read_text().splitlines():
        key, *values = line.split()
        numbers = [float(value) for value in values if value.replace(".", "").isdigit()]
        found[key] = numbers[0] if len(numbers) == 1 else numbers
    return found


def run(directory, name):
    """One run of the database. Device bytes are those of the whole load and of its data that were written later, for each transaction."""
    begin, first, last, end = (sample(directory / f"{name}.{n}") for n in range(4))
    ends = [time / 1e9 for time, _ in struct.iter_unpack("<qq", (directory / f"{name}.log").read_bytes())]
    seconds, number = last["uptime"] - first["uptime"], len(ends)
    window = sum(first["uptime"] < t <= last["uptime"] for t in ends)
    disk = [b - a for a, b in zip(begin["disk"], end["disk"], strict=True)]
    cpu = [b - a for a, b in zip(first["cpu"], last["cpu"], strict=True)]
    hits = {key: last[f"arcstats:demand_data_{key}"] - first[f"arcstats:demand_data_{key}"] for key in ("hits", "iohits", "misses")}
    return {
        "rate": window / seconds,
        "written": disk[6] * SECTOR / number,
        "read": disk[2] * SECTOR / number,
        "space": float((directory / f"{name}.space").read_text()),
        "user_ms": 1000 * (cpu[0] + cpu[1]) / TICKS / window,
        "system_ms": 1000 * (cpu[2] + cpu[5] + cpu[6]) / TICKS / window,
        "idle": (cpu[3] + cpu[4]) / TICKS / seconds,
        "reads": disk[0] / number,
        "writes": disk[4] / number,
        "direct": (end[DIRECT] - begin[DIRECT]) / number,
        "arc_hits": 100 * (1 - hits["misses"] / max(sum(hits.values()), 1)),
    }


DIRECT = "tank/iostats:direct_read_bytes"


def predicted(path):
    """The prediction of a setting; the replayed work is the same for all."""
    trial = json.loads(path.read_text())
    trial = trial["trials"][0] if "trials" in trial else trial
    arc, vdev = trial["arc"], trial["vdev"]
    return {"rate": trial["work_rate"], "written": vdev["write_bytes"], "read": vdev["read_bytes"], "space": trial["allocated_bytes"],
            "cpu": trial["cpu_seconds"], "application": trial["application_cpu_seconds"], "seconds": trial["seconds"], "arc": arc, "vdev": vdev}


def percent(ratio):
    return f"{100 * (ratio - 1):+.1f}"


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
    print(f"Signs: {sum((p > 1) == (m > 1) for p, m in clear)} of {len(clear)} clear changes. "
          f"Order: {sum((a[0] > b[0]) == (a[1] > b[1]) for a, b in ordered)} of {len(ordered)} clear pairs. "
          f"Errors of the work rate: median {statistics.median(errors):.1f} points, largest {max(errors):.1f}.")


def main():
    directory, settings = Path(sys.argv[1]), Path(sys.argv[2])
    names = [line.split()[0] for line in settings.read_text().splitlines() if line and not line.startswith("#")]
    measured = directory / "measured"
    runs = {name: [run(measured, path.name[:-6]) for path in sorted(measured.glob(f"{name}.[0-9].space"))] for name in names}
    runs = {name: every for name, every in runs.items() if every}
    truth = {name: {key: statistics.median(one[key] for one in every) for key in every[0]} for name, every in runs.items()}
    ours = {name: predicted(path) for name in names if (path := directory / "predicted" / f"{name}.predicted").exists() and path.stat().st_size}
    today = names[0]
    table(["setting", "transactions/s, each run", "user, system ms", "idle", "reads, writes", "KB read", "KB written", "direct KB", "ARC hits, %", "space, MB"],
          [[name, ", ".join(f"{one['rate']:.1f}" for one in runs[name]), f"{t['user_ms']:.2f}, {t['system_ms']:.2f}", f"{t['idle']:.2f}",
            f"{t['reads']:.2f}, {t['writes']:.2f}", f"{t['read'] / 1000:.1f}", f"{t['written'] / 1000:.1f}", f"{t['direct'] / 1000:.1f}",
            f"{t['arc_hits']:.1f}", f"{t['space'] / 1e6:.0f}"] for name, t in truth.items()])
    both = [name for name in truth if name in ours and name != today]
    if today not in ours or not both:
        return
    for metric, title in METRICS.items():
        rows = []
        for name in both:
            p, m = ours[name][metric] / ours[today][metric], truth[name][metric] / truth[today][metric]
            rows.append([name, percent(p), percent(m), f"{100 * (p - m):+.1f}"])
        table([f"{title}, change", "predicted, %", "measured, %", "error, points"], rows)
    agreement([(ours[name]["rate"] / ours[today]["rate"], truth[name]["rate"] / truth[today]["rate"]) for name in both])


if __name__ == "__main__":
    main()
