"""Compares replays of traces on the engine and in a kernel's datasets (part `arc` of scripts/test-kernel.sh).

usage: arc.py settings DIR               prints the replays of the traces in DIR: name, trace, number of the marker's file, properties
       arc.py engine PROGRAM DIR DATA    replays each on the engine, and writes DIR/NAME.engine.json
       arc.py compare DIR                compares them with the kernel's DIR/NAME.json and DIR/NAME.samples

`compare` prints a table, and lines that start with "pass" or "fail". It fails if the share of demand reads of data that the ARC answered
differs by more than 2 points, or the bytes written to the vdevs by more than 10 %; and if a replay was too late to be measured.
"""

import json
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
                   "--arc", "64M", *options]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        Path(directory, f"{name}.engine.json").write_text(found.stdout)


def trial(path):
    """The result of the only trial of a `replay --json`."""
    return json.loads(Path(path).read_text())


def samples(path):
    for line in Path(path).read_text().splitlines():
        now, marker, *counters = line.split("\t")
        yield int(now), int(marker), {key: int(value) for key, value in (one.split("=") for one in counters)}


def of_kernel(path):
    """The counters of the measured pass: from before its work began until all of its data was on disk."""
    taken = list(samples(path))
    # The first write of the last pass; its second write may not have been seen, because the replay then removes the file.
    began = max(marker for _, marker, _ in taken if marker <= taken[-1][0] - arc_load.BEFORE - arc_load.LENGTH)
    ended = min((marker for _, marker, _ in taken if marker > began), default=taken[-1][0] + 1)
    # A transaction group closes after 5 seconds at most.
    if ended - began < arc_load.BEFORE + arc_load.LENGTH + 6:
        raise ValueError(f"{path}: the samples end {ended - began} s after the pass began")
    first = [counters for now, _, counters in taken if now < began + arc_load.BEFORE - 1][-1]
    last = [counters for now, _, counters in taken if now < ended][-1]
    return {key: last[key] - first[key] for key in last}


def hit_ratio(counters):
    read = sum(counters[f"demand_data_{kind}"] for kind in ("hits", "iohits", "misses"))
    return 100 * (1 - counters["demand_data_misses"] / read) if read else 100.0


def compare_one(name, trace, properties, directory):
    ours, theirs = trial(f"{directory}/{name}.engine.json"), of_kernel(f"{directory}/{name}.samples")
    lag = max(ours["max_lag_ns"], trial(f"{directory}/{name}.json")["max_lag_ns"]) / 1e9
    hits = hit_ratio(ours["arc"]), hit_ratio(theirs)
    written = ours["vdev"]["write_bytes"], theirs["write_bytes"]
    apart, share = hits[0] - hits[1], 100 * (written[0] / written[1] - 1) if written[1] else 0.0
    misses = ours["arc"]["demand_data_misses"], theirs["demand_data_misses"]
    print(f"{trace:7} {' '.join(properties):54} {hits[0]:6.2f} {hits[1]:6.2f} {apart:+6.2f} {misses[0]:7} {misses[1]:7} "
          f"{written[0]:11} {written[1]:11} {share:+6.1f} {lag:5.2f}")
    missed = [f"the hit ratios are {apart:+.2f} points apart"] if abs(apart) > HIT_BAR else []
    missed += [f"the bytes written are {share:+.1f} % apart"] if abs(share) > BYTES_BAR else []
    missed += [f"the replay was {lag:.1f} s late, too much for the samples"] if lag > LAG_BAR else []
    print(f"fail\t{name}: {'; '.join(missed)}" if missed else f"pass\t{name}: {apart:+.2f} points, {share:+.1f} % bytes written")


def compare(directory):
    print("                                                               hit ratio, %     apart,  misses          bytes written          apart, late,")
    print("trace   settings                                               engine kernel  points  engine  kernel      engine      kernel      %      s")
    for name, trace, _, properties in replays(directory):
        try:
            compare_one(name, trace, properties, directory)
        except (OSError, ValueError, KeyError, IndexError) as error:
            print(f"fail\t{name}: no result: {error!r}")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "settings":
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
