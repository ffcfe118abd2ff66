"""BENCH lines of scripts/bench/70-mount.sh: medians over the rounds, ratios round by round.

usage: mount_figures.py RESULTS.jsonl RSS_KIB ARC_MIB
"""

import json
import statistics
import sys

# job, bar against zfs-fuse, bar against the second reference, the second reference, its job (None: the same job)
JOBS = [
    ("read, page cache, 1 job", 1.0, None, None, None),
    ("read, page cache, 4 jobs", 1.0, None, None, None),
    ("read, ARC, 1 job", 1.2, 0.7, "idle", None),
    ("read, ARC, 4 jobs", 1.5, 0.7, "idle", None),
    ("write, end_fsync", 1.5, 0.6, "idle", None),
    ("write, fdatasync each", 1.5, 0.8, "engine", "sync-write"),
    ("write 1M", 1.5, 0.7, "engine", "write"),
    ("cold read 1M", 1.5, 0.7, "engine", "cold-read"),
    ("SQLite", 1.5, None, None, None),
]


def main():
    rounds = {}
    for line in open(sys.argv[1]):
        one = json.loads(line)
        rounds.setdefault((one["server"], one["job"]), []).append(one["value"])

    def compare(job, server, of, bar):
        ours, theirs = rounds.get(("ours", job)), rounds.get((server, of))
        if not ours or not theirs:
            return
        ratios = sorted(a / b for a, b in zip(ours, theirs))
        ratio = statistics.median(ratios)
        figure = {
            "name": f"mount/{job}, against {NAMES[server]}",
            "value": round(statistics.median(ours), 1),
            "unit": "1/s",
            "reference": round(statistics.median(theirs), 1),
            "ratio": round(ratio, 3),
            "spread": [round(ratios[0], 3), round(ratios[-1], 3)],
            "bar": f">= {bar}",
            "pass": ratio >= bar,
            "rounds": len(ratios),
        }
        print("BENCH " + json.dumps(figure))

    for job, old_bar, other_bar, other, of in JOBS:
        compare(job, "old", job, old_bar)
        if other:
            compare(job, other, of or job, other_bar)
    over = int(sys.argv[2]) / 1024 - float(sys.argv[3])
    print("BENCH " + json.dumps({
        "name": "mount/memory over the ARC limit", "value": round(over), "unit": "MiB", "reference": None,
        "ratio": None, "bar": "<= 512", "pass": over <= 512,
    }))


NAMES = {"old": "zfs-fuse", "idle": "an empty FUSE file system", "engine": "the engine"}

if __name__ == "__main__":
    main()
