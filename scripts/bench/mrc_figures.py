"""Measures and prints the figures of 90-mrc.sh: times whole commands in turns; prints medians and spread.

usage: mrc_figures.py ROUNDS     (in a scratch directory)
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "mrc"))
import traces  # noqa: E402

ROUNDS = int(sys.argv[1])
ARC_BAR, LRU_BAR = 1.5, 20e6
THREADS = str(os.cpu_count())


def bench(**row):
    print("BENCH " + json.dumps(row))


def spread(values):
    return f"median {statistics.median(values):.3f}, {min(values):.3f} to {max(values):.3f}"


def timed(command):
    """Runs a command; returns its wall time and its CPU time in seconds."""
    start = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status != 0:
        sys.exit(f"{command[0]} exited with status {os.waitstatus_to_exitcode(status)}: {errors.decode()[-500:]}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def in_turns(commands):
    """Runs each command once per round, starting with another one each time; returns lists of wall times and CPU times."""
    names = list(commands)
    wall, processor = {name: [] for name in names}, {name: [] for name in names}
    for name in names:
        timed(commands[name])  # brings the trace into the page cache
    for turn in range(ROUNDS):
        for n in range(len(names)):
            name = names[(turn + n) % len(names)]
            seconds, cpu = timed(commands[name])
            wall[name].append(seconds)
            processor[name].append(cpu)
    for name in names:
        print(f"  {name:<20} {spread(wall[name])} s; CPU time: {spread(processor[name])} s")
    return wall, processor


def ours(trace, model, sizes):
    in_bytes = ",".join(str(size * traces.PAGE) for size in sizes)
    return [os.environ["POOLWRIGHT"], "mrc", trace, "--model", model, "--sizes", in_bytes, "--json"]


def theirs(trace, model, sizes):
    """libcachesim's native simulators, by name."""
    script = HERE.parent / "mrc/reference.py"
    found = {"libcachesim's threads": [sys.executable, script, trace, model.upper(), THREADS, *sizes]}
    if os.access(os.environ["CACHESIM"], os.X_OK):
        some = ",".join(map(str, sizes))
        command = [os.environ["CACHESIM"], trace, "oracleGeneral", model, some, "--ignore-obj-size", "1"]
        found["cachesim"] = [*command, "--num-thread", THREADS]
    return found


def ratios(a, b):
    return [x / y for x, y in zip(a, b)]


def arc(name, trace, sizes, requests):
    print(f"{name}: ARC at {len(sizes)} sizes, {THREADS} threads, {ROUNDS} rounds in turns, reading included")
    others = theirs(trace, "arc", sizes)
    wall, processor = in_turns({"poolwright": ours(trace, "arc", sizes), **others})
    best = min(others, key=lambda other: statistics.median(wall[other]))
    faster, cheaper = (ratios(seconds[best], seconds["poolwright"]) for seconds in (wall, processor))
    print(f"  {best}'s time / poolwright's time: {spread(faster)}; CPU time: {spread(cheaper)}")
    rate = [requests * len(sizes) / statistics.median(wall[who]) for who in ("poolwright", best)]
    ratio = statistics.median(faster)
    bench(name=f"mrc/ARC, {name}", value=rate[0], unit="requests × sizes/s", reference=rate[1], ratio=ratio,
          bar=f">= {ARC_BAR}", low=min(faster), high=max(faster), against=best,
          processor_ratio=statistics.median(cheaper), **{"pass": ratio >= ARC_BAR})


def lru(name, trace, sizes, requests):
    _, processor = in_turns({"poolwright": ours(trace, "lru", sizes)})
    whole = requests / statistics.median(processor["poolwright"])
    command = [os.environ["RATE"], trace, "lru", ",".join(str(size * traces.PAGE) for size in sizes), str(2 * ROUNDS)]
    output = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    rounds = [json.loads(line) for line in output.splitlines()]
    rates = [r["requests"] / r["cpu_seconds"] for r in rounds]
    print(f"  without reading: {spread([rate / 1e6 for rate in rates])} million requests/s per core; whole command {whole / 1e6:.1f}")
    rate = statistics.median(rates)
    bench(name=f"mrc/LRU, {name}", value=rate, unit="requests/s/core", reference=None, ratio=None,
          bar=f">= {LRU_BAR:.0f}", low=min(rates), high=max(rates), whole_command=whole, **{"pass": rate >= LRU_BAR})


def main():
    known = traces.found()
    runs = {name: traces.read_lis(path) for name, path in known.items()}
    for name, requests in runs.items() or {"generated": traces.generate(1_000_000)}.items():
        trace = Path(f"{name}.oracleGeneral").absolute()
        pages = traces.pages(requests)
        traces.write_oracle(trace, pages)
        arc(name, trace, traces.SIZES[name], len(pages))
        lru(name, trace, traces.SIZES[name], len(pages))


main()
