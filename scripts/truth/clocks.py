"""Compares the virtual clock of `replay` with the real one (scripts/bench/55-clocks.sh).

usage: clocks.py DIR

Records workloads of campaigns/truth.toml below DIR, replays each with several settings and devices on both clocks, and prints tables and
BENCH lines. The counters of both clocks must agree, and the settings must have the same order and the same changes from the first one.
"""

import itertools
import json
import math
import os
import statistics
import sys
from pathlib import Path

import run
from campaign import Workload

WORKLOADS = os.environ.get("CLOCKS_WORKLOADS", "mariadb postgresql sqlite kv-c openldap").split()
DEVICES = os.environ.get("CLOCKS_DEVICES", "nvme hdd").split()
RECORDED_S = int(os.environ.get("CLOCKS_SECONDS", "8"))
ROUNDS = int(os.environ.get("CLOCKS_ROUNDS", "1"))
SETTINGS = ("128K lz4", "64K zstd-1", "16K zstd-1", "16K lz4")
CLOCKS = ("real", "virtual")
# On the real clock, a pass takes as long as the device would.
OPTIONS = {"hdd": ["--first", "2s", "--warm", "0", "--for", "60s"]}
# Two rates of one order may be exchanged if the real ones differ by less than this; repeated trials on the real clock differ as much.
EQUAL = 0.03
# The counters are for each operation, because a time limit may end a pass.
COUNTERS = {
    "ARC hit ratio": lambda t: t["arc"]["hits"] / max(t["arc"]["hits"] + t["arc"]["misses"], 1),
    "bytes read": lambda t: t["vdev"]["read_bytes"] / t["ops"],
    "bytes written": lambda t: t["vdev"]["write_bytes"] / t["ops"],
    "flushes": lambda t: t["vdev"]["flushes"] / t["ops"],
}


def main():
    scratch = Path(sys.argv[1])
    found = {}
    for name in WORKLOADS:
        recorded = recorded_workload(name, scratch / name)
        for device in DEVICES:
            found[name, device] = cells = measured(recorded, device)
            print_table(name, device, cells)
    for device in DEVICES:
        print_figures(device, {name: cells for (name, of), cells in found.items() if of == device})


def recorded_workload(name, out):
    """A workload of the campaign with its recording."""
    words = [name, "--out", str(out), "--record", str(RECORDED_S), "--size", os.environ.get("CLOCKS_SIZE", "0.5")]
    workload = Workload(run.CAMPAIGN, name, "full")
    recorded = run.Run(workload, run.arguments(words))
    recorded.record()
    return recorded


def measured(recorded, device):
    """Setting → clock → metric → median over the rounds. The clocks take turns."""
    trials = {}
    for _ in range(ROUNDS):
        for setting, clock in itertools.product(SETTINGS, CLOCKS):
            trials.setdefault((setting, clock), []).append(trial(recorded, device, setting, clock))
    return {setting: {clock: medians(trials[setting, clock]) for clock in CLOCKS} for setting in SETTINGS}


def trial(recorded, device, setting, clock):
    run.say(f"{recorded.workload.name}, {device}, {setting}, {clock} clock")
    words = [f"{name}={value}" for name, value in recorded.workload.settings[setting].items()]
    options = [word for pair in words for word in ("-o", pair)]
    return json.loads(run.poolwright("replay", recorded.trace, "--application", "--arc", "256M", "--device", device, "--clock", clock,
                                     "--json", *OPTIONS.get(device, []), *options))


def medians(trials):
    metrics = {"rate": lambda t: t["work_rate"], **COUNTERS}
    return {name: statistics.median(of(t) for t in trials) for name, of in metrics.items()}


def change(cells, setting, clock):
    """The rate of a setting relative to that of the first one."""
    return cells[setting][clock]["rate"] / cells[SETTINGS[0]][clock]["rate"]


def difference(real, virtual):
    """The relative difference of two counters; if an operation has less than a hundredth, that to a hundredth."""
    return abs(virtual - real) / max(real, 0.01)


def counters(cells):
    """Counter → its largest difference between the clocks. That of the hit ratio is in points."""
    largest = dict.fromkeys(COUNTERS, 0.0)
    for both in cells.values():
        for name in COUNTERS:
            real, virtual = both["real"][name], both["virtual"][name]
            off = abs(virtual - real) if name == "ARC hit ratio" else difference(real, virtual)
            largest[name] = max(largest[name], off)
    return largest


def pairs(cells):
    """The numbers of pairs of settings in the same order on both clocks, and of all pairs whose real rates differ."""
    same, all_pairs = 0, 0
    for one, other in itertools.combinations(SETTINGS, 2):
        real = math.log(change(cells, one, "real") / change(cells, other, "real"))
        virtual = math.log(change(cells, one, "virtual") / change(cells, other, "virtual"))
        if abs(real) >= EQUAL:
            all_pairs += 1
            same += real * virtual > 0
    return same, all_pairs


def print_table(name, device, cells):
    print(f"\n{name}, {device}: real → virtual")
    for setting, both in cells.items():
        changes = [100 * (change(cells, setting, clock) - 1) for clock in CLOCKS]
        figures = [f"{metric} {both['real'][metric]:.4g} → {both['virtual'][metric]:.4g}" for metric in both["real"]]
        print(f"  {setting:<11} change {changes[0]:+.1f} → {changes[1]:+.1f} %; " + ", ".join(figures), flush=True)


def print_figures(device, found):
    def figure(name, value, unit, bar, limit):
        print("BENCH " + json.dumps({"name": f"clocks/{device}, {name}", "value": round(value, 3), "unit": unit, "reference": None,
                                     "ratio": None, "bar": f"{bar} {limit}", "pass": value <= limit if bar == "<=" else value >= limit}))

    absolute = [cells[s]["virtual"]["rate"] / cells[s]["real"]["rate"] for cells in found.values() for s in SETTINGS]
    figure("largest difference of a rate", 100 * max(abs(ratio - 1) for ratio in absolute), "%", "<=", 5)
    changes = [abs(change(cells, s, "virtual") / change(cells, s, "real") - 1) for cells in found.values() for s in SETTINGS[1:]]
    figure("median difference of a change of the rate", 100 * statistics.median(changes), "%", "<=", 5)
    figure("largest difference of a change of the rate", 100 * max(changes), "%", "<=", 5)
    same, of = (sum(numbers) for numbers in zip(*map(pairs, found.values())))
    figure(f"pairs of settings in order, of {of}", same, "", ">=", of)
    largest = [counters(cells) for cells in found.values()]
    for name in COUNTERS:
        figure(f"largest difference of {name}", 100 * max(each[name] for each in largest), "%", "<=", 1)


if __name__ == "__main__":
    main()
