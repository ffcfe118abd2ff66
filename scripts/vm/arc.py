"""Compares replays of traces on the engine and in a kernel's datasets (part `arc` of scripts/test-kernel.sh).

usage: arc.py limits                      prints the size of the ARC, and zfs_max_recordsize, in bytes
       arc.py settings DIR               prints the replays of the traces in DIR: name, trace, number of the marker's file, properties
       arc.py engine PROGRAM DIR DATA    replays each on the engine, and writes DIR/NAME.engine1.json and so on
       arc.py compare DIR                compares them with the kernel's DIR/NAME.json and DIR/NAME.samples

`compare` prints a table, and lines that start with "pass" or "fail". It fails if the share of demand reads of data that the ARC answered
is more than 2 points outside the range of the engine's replays, which differ among themselves because the ARC adapts; if the bytes written to
the vdevs differ by more than 10 %; and if a replay was too late to be measured.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import arc_load

SETTINGS = {
    "8K-lz4": ["recordsize=8K", "compression=lz4"],
    "16K-zstd-3": ["recordsize=16K", "compression=zstd-3"],
    "128K-lz4": ["recordsize=128K", "compression=lz4"],
    "16K-metadata": ["recordsize=16K", "compression=lz4", "primarycache=metadata"],
}
ARC_BYTES = 64 << 20
# OpenZFS evicts when the ARC is above its limit by zfs_max_recordsize, and then down to the limit. With the default of 16M, the size of an ARC
# of 64M varies by a quarter: two replays on the same engine differ by up to 4 points.
MAX_RECORDSIZE = 1 << 20
ENGINE_REPLAYS = 3
HIT_BAR = 2.0  # points
BYTES_BAR = 10.0  # per cent
# A later replay has not written all of its data when the samples of the kernel end.
LAG_BAR = arc_load.AFTER - 6  # seconds


def traces(directory):
    """Trace and number of the marker in it."""
    for path in sorted(Path(directory).glob("*.show")):
        files = [file["path"] for file in json.loads(path.read_text())["files"]]
        yield path.stem, next(n for n, file in enumerate(files) if file.endswith("/marker"))


def replays(directory):
    for trace, marker in traces(directory):
        for setting, properties in SETTINGS.items():
            yield f"{trace}-{setting}", trace, marker, properties


def engine(program, directory, data):
    for name, trace, _, properties in replays(directory):
        options = [word for one in properties for word in ("-o", one)]
        command = [program, "replay", f"{directory}/{trace}.parquet", "--data", f"{data}/{trace}", "--paced", "--device", "none", "--json",
                   "--arc", str(ARC_BYTES), "--tunable", f"zfs_max_recordsize={MAX_RECORDSIZE}", *options]
        running = []
        for number in range(1, ENGINE_REPLAYS + 1):
            with open(Path(directory, f"{name}.engine{number}.json"), "w") as out:
                running.append(subprocess.Popen(command, stdout=out))
        if any([one.wait() for one in running]):
            raise subprocess.CalledProcessError(1, command)


def trial(path):
    """The result of the only trial of a `replay --json`."""
    return json.loads(Path(path).read_text())


def samples(path):
    for line in Path(path).read_text().splitlines():
        now, marker, *counters = line.split("\t")
        yield int(now), int(marker), {key: int(value) for key, value in (one.split("=") for one in counters)}


def of_kernel(path):
    """The counters of the measured pass: from its first write of the marker, as the engine's, until all of its data was on disk."""
    taken = list(samples(path))
    ended, _, last = taken[-1]
    # The first write of the last pass; its second write may not have been seen, because the replay then removes the file.
    began = max(marker for _, marker, _ in taken if marker <= ended - arc_load.BEFORE - arc_load.LENGTH)
    # A transaction group closes after 5 seconds at most.
    if ended - began < arc_load.BEFORE + arc_load.LENGTH + 6:
        raise ValueError(f"{path}: the samples end {ended - began} s after the pass began")
    first = [counters for now, _, counters in taken if now < began][-1]
    return {key: last[key] - first[key] for key in last}


def hit_ratio(counters):
    read = sum(counters[f"demand_data_{kind}"] for kind in ("hits", "iohits", "misses"))
    return 100 * (1 - counters["demand_data_misses"] / read) if read else 100.0


def compare_one(name, trace, properties, directory):
    ours = [trial(f"{directory}/{name}.engine{number}.json") for number in range(1, ENGINE_REPLAYS + 1)]
    theirs = of_kernel(f"{directory}/{name}.samples")
    lag = max(one["max_lag_ns"] for one in [*ours, trial(f"{directory}/{name}.json")]) / 1e9
    engine_hits, kernel_hits = sorted(hit_ratio(one["arc"]) for one in ours), hit_ratio(theirs)
    median = statistics.median(engine_hits)
    outside = max(engine_hits[0] - kernel_hits, kernel_hits - engine_hits[-1], 0)
    written = statistics.median(one["vdev"]["write_bytes"] for one in ours), theirs["write_bytes"]
    apart, share = median - kernel_hits, 100 * (written[0] / written[1] - 1) if written[1] else 0.0
    print(f"{trace:7} {' '.join(properties):54} {median:6.2f} {engine_hits[0]:6.2f} {engine_hits[-1]:6.2f} {kernel_hits:6.2f} {apart:+6.2f} "
          f"{written[0]:11.0f} {written[1]:11} {share:+6.1f} {lag:5.2f}")
    missed = [f"the hit ratio is {outside:.2f} points outside the engine's range"] if outside > HIT_BAR else []
    missed += [f"the bytes written are {share:+.1f} % apart"] if abs(share) > BYTES_BAR else []
    missed += [f"the replay was {lag:.1f} s late, too much for the samples"] if lag > LAG_BAR else []
    print(f"fail\t{name}: {'; '.join(missed)}" if missed else f"pass\t{name}: {apart:+.2f} points, {share:+.1f} % bytes written")


def compare(directory):
    print("                                                               hit ratio, %                apart, bytes written           apart, late,")
    print("trace   settings                                               engine   from     to kernel  points   engine      kernel      %      s")
    for name, trace, _, properties in replays(directory):
        try:
            compare_one(name, trace, properties, directory)
        except (OSError, ValueError, KeyError, IndexError) as error:
            print(f"fail\t{name}: no result: {error!r}")


def main():
    if sys.argv[1:] == ["limits"]:
        print(ARC_BYTES, MAX_RECORDSIZE)
    elif len(sys.argv) == 3 and sys.argv[1] == "settings":
        for name, trace, marker, properties in replays(sys.argv[2]):
            print(name, trace, marker, " ".join(properties), sep="\t")
    elif len(sys.argv) == 5 and sys.argv[1] == "engine":
        engine(*sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] == "compare":
        compare(sys.argv[2])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
