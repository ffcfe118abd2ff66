"""Makes a fleet of small traces with known events, in the format of docs/trace-format.md without seals and checksums.

A trace here is a dict: path (below the fleet), host, date, subject, duration_s, lost, unseen, files [{path, size, role}] and events, a
list of dicts with the columns of a trace. Offsets and sizes are deterministic: the seed is the trace's number.
"""

import json
import random
from pathlib import Path

K, M, SECOND = 1024, 1 << 20, 10**9
COLUMNS = [("t_ns", "int64"), ("dur_ns", "int64"), ("op", "string"), ("file", "uint32"), ("path", "string"), ("role", "string"),
           ("offset", "int64"), ("len", "int64"), ("pid", "uint32"), ("tid", "uint32"), ("flags", "uint16"), ("gap_cpu_ns", "int64"),
           ("gap_ready_ns", "uint32"), ("gap_wake_ns", "uint32"), ("waker", "uint32"), ("gap_served_ns", "uint32")]
GAP_COLUMNS = 5
# The datasets of each kind of database: mountpoint, recordsize, compression, logbias; and the ARC's limit.
DATASETS = {
    "random8k": ([("/", 1 * M, "off", "latency"), ("/db", 128 * K, "lz4", "latency"), ("/db/other", 16 * K, "lz4", "latency")], 32 * M),
    "sequential": ([("/db", 128 * K, "zstd", "latency")], 64 * M),
    "tinysync": ([("/db", 128 * K, "lz4", "latency"), ("/db/wal", 128 * K, "off", "throughput"), ("none", 128 * K, "off", "latency")], 1 * M),
    "bulk": ([("/db", 2 * M, "zstd", "latency")], 512 * M),
    "mixed": ([("/db", 8 * K, "lz4", "latency")], 16 * M),
}


class Builder:
    """Collects the events of one trace."""

    def __init__(self, files):
        self.files = [dict(path=path, size=size, role=role) for path, size, role in files]
        self.events = []
        self.now = 1000

    def add(self, op, file, offset=0, length=0, tid=1, flags=0, dur=0, step=None):
        self.now += step if step is not None else 100 * 10**6
        self.events.append(dict(t_ns=self.now, dur_ns=dur, op=op, file=file, path=self.files[file]["path"], role=self.files[file]["role"],
                                offset=offset, len=length, pid=7, tid=tid, flags=flags, gap_cpu_ns=-1, gap_ready_ns=0, gap_wake_ns=0, waker=0,
                                gap_served_ns=0))


def random8k(rng):
    """Aligned reads and writes of 8K anywhere in a file of 256M, on records of 128K."""
    b = Builder([("/db/t.ibd", 256 * M, "data"), ("/db/other/x", 4 * M, "index"), ("/dbx", 8 * K, "other")])
    for i in range(200):
        b.add("write" if i % 2 else "read", 0, 8 * K * rng.randrange(32768), 8 * K, tid=1 + i % 3, dur=5000)
    b.add("write", 1, 12 * K, 4 * K)
    b.add("write", 2, 0, 100)
    b.add("fsync", 0, dur=3 * 10**6)
    return b


def sequential(rng):
    """Two threads that write files in order, 64K at a time, on records of 128K, and one that reads a file in order."""
    b = Builder([("/db/a", 8 * M, "data"), ("/db/b", 8 * M, "data"), ("/db/in", 16 * M, "import")])
    for i in range(128):
        b.add("write", i % 2, 64 * K * (i // 2), 64 * K, tid=1 + i % 2, step=20 * 10**6)
        b.add("read", 2, 128 * K * i, 128 * K, tid=3, step=10**6)
    return b


def tinysync(rng):
    """A log with a small write before each sync, and one with O_DSYNC."""
    b = Builder([("/db/wal/0001", 16 * M, "wal"), ("/db/binlog", 1 * M, "binlog")])
    at = [0, 0]
    for i in range(150):
        size = rng.randrange(60, 700)
        b.add("write", 0, at[0], size, step=5 * 10**6)
        at[0] += size
        b.add("fdatasync", 0, dur=10**6 + rng.randrange(10**6), step=10**6)
        if i % 3 == 0:
            b.add("write", 1, at[1], 120, tid=2, flags=2, dur=2 * 10**6, step=10**6)
            at[1] += 120
    b.add("write", 0, at[0], 500)  # no sync follows
    return b


def bulk(rng):
    """Large operations that no record begins with, on records of 2M."""
    b = Builder([("/db/dump", 400 * M, "backup")])
    for i in range(40):
        b.add("write" if rng.random() < 0.5 else "read", 0, 100 * K + rng.randrange(300) * M, 1 * M + rng.randrange(3 * M))
    for i in range(12):
        b.add("write", 0, 4 * M * i, 4 * M, tid=9)
        b.add("fsync", 0, dur=10**7)
    return b


def mixed(rng):
    """All kinds of operations with sizes from 0, in an order that is not quite that of time, on files of many sizes."""
    b = Builder([("/db/%d" % i, rng.choice([0, 700, 5000, 70 * K, 3 * M, 90 * M]), rng.choice(["data", "", "temp"])) for i in range(9)])
    position = {}
    for _ in range(160):
        file, tid = rng.randrange(8), rng.randrange(3)
        op = rng.choice(["read", "write", "read", "write", "fsync", "fdatasync", "open", "close", "lock", "map", "truncate", "punch"])
        length = rng.choice([0, 1, 100, 512, 4 * K, 5000, 8 * K, 64 * K, 128 * K, 300 * K, 1 * M])
        # Of a thread's operations on a file in one direction, half begin where the last one ended.
        offset = position.get((file, tid, op), 0) if rng.random() < 0.5 else rng.randrange(4000) * rng.choice([1, 512, 4 * K, 8 * K])
        position[file, tid, op] = offset + length
        b.add(op, file, offset, length, tid=tid, flags=rng.choice([0, 0, 0, 1, 2, 3]), dur=rng.randrange(10**6), step=rng.randrange(1, 3 * 10**8))
    b.events[20:60] = b.events[40:60] + b.events[20:40]
    return b


KINDS = [random8k, sequential, tinysync, bulk, mixed]


def fleet(count=300):
    """The traces of a fleet: a host per kind and number, on two days; every 25th is a file without partitions and without datasets."""
    for number in range(count):
        kind = KINDS[number // 2 % len(KINDS)]
        b = kind(random.Random(number))
        host, date = f"{kind.__name__}-{number // 2:03}", f"2026-11-{10 + number % 2}"
        plain = number % 25 == 24
        yield dict(path=f"plain-{number}.parquet" if plain else f"host={host}/date={date}/db.parquet", host=f"plain-{number}" if plain else host,
                   date="" if plain else date, subject="dir:/db", duration_s=30.5 + number % 7, lost=number % 3, unseen=[["maps", number % 5], ["x", 1]],
                   files=b.files, events=b.events, datasets=None if plain else DATASETS[kind.__name__], gaps=number % 10 != 5)


def iolog():
    """The same for an imported trace: its events and fio's log of them."""
    rng = random.Random(77)
    b = Builder([("/fio/data", 0, "")])
    lines = ["fio version 3 iolog", "0 /fio/data add", "0 /fio/data open"]
    at = 0
    for i in range(400):
        at = at if i % 3 else 4 * K * rng.randrange(5000)
        op, length = rng.choice(["read", "write"]), rng.choice([4 * K, 8 * K, 48 * K])
        b.add(op, 0, at, length, tid=0, step=10**6)
        lines.append(f"{b.now // 1000} /fio/data {op} {at} {length}")
        at += length
    return "\n".join([*lines, f"{b.now // 1000 + 1} /fio/data close"]) + "\n"


def write(trace, root):
    """Writes a trace as Parquet, in row groups of 100 events."""
    import pyarrow
    import pyarrow.parquet

    columns = COLUMNS if trace["gaps"] else COLUMNS[:-GAP_COLUMNS]
    meta = dict(creator="poolwright test", probe_set="syscall", subject=trace["subject"], duration_ns=round(trace["duration_s"] * SECOND),
                lost_events=trace["lost"], unseen=trace["unseen"], host="Linux 6.1 x86_64", cores=2)
    metadata = {"poolwright.version": "1", "poolwright.meta": json.dumps(meta), "poolwright.files": json.dumps(trace["files"])}
    schema = pyarrow.schema([pyarrow.field(name, getattr(pyarrow, kind)(), nullable=False) for name, kind in columns], metadata=metadata)
    path = Path(root, trace["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(trace["events"], schema=schema), path, compression="zstd", row_group_size=100)
    if trace["datasets"]:
        datasets, arc = trace["datasets"]
        lines = "".join("\t".join(map(str, [*dataset, arc])) + "\n" for dataset in datasets)
        Path(root, f"host={trace['host']}", "datasets.tsv").write_text(lines)
