"""Traces for the comparison and the bench: those of the ARC paper and a generated one."""

import os
from pathlib import Path

import numpy
import pyarrow

PAGE = 512  # bytes of a block of a .lis trace

# https://github.com/1a1a11a/libCacheSim, oracleGeneral: seconds, object, bytes, index of the next access or -1.
ORACLE = numpy.dtype([("time", "<u4"), ("object", "<u8"), ("bytes", "<u4"), ("next", "<i8")])

# Cache sizes in pages: those of the paper, and three more for OLTP.
SIZES = {
    "OLTP": [500, 1000, 2000, 5000, 10000, 15000, 40000, 120000],
    "P3": [1024, 4096, 16384, 32768, 65536, 131072, 262144, 524288],
    "generated": [64, 256, 1000, 3000, 8000, 16000, 32000, 64000],
}


def found():
    """The paths of the available traces of the paper, by name."""
    data = Path(os.environ["POOLWRIGHT_SHARED"]) / "data"
    paths = {name: data / f"arc-{name}.lis.zst" for name in ("OLTP", "P3")}
    return {name: path for name, path in paths.items() if path.exists()}


def read_lis(path):
    """Returns the first block and the number of blocks of each request."""
    compression = "zstd" if path.suffix == ".zst" else None
    with pyarrow.input_stream(str(path), compression=compression) as file:
        numbers = numpy.array(file.read().split(), dtype=numpy.uint64)
    return numbers.reshape(-1, 4)[:, :2]


def generate(requests=200_000, seed=1):
    """Returns requests in the format of `read_lis`: a skewed hot set, scans, and a loop that is larger than most caches."""
    rng = numpy.random.default_rng(seed)
    kind = rng.choice(3, size=requests, p=[0.9, 0.02, 0.08])
    hot = (rng.zipf(1.2, requests) - 1) % 30_000
    scan = 100_000 + rng.integers(0, 50_000, requests)
    loop = 200_000 + numpy.arange(requests) * 4 % 20_000
    first = numpy.choose(kind, [hot, scan, loop])
    blocks = numpy.choose(kind, [1, 64, 4])
    return numpy.stack([first, blocks], axis=1).astype(numpy.uint64)


def write_lis(path, runs):
    lines = (f"{first} {blocks} 0 {n}\n" for n, (first, blocks) in enumerate(runs))
    path.write_text("".join(lines))


def pages(runs):
    """Returns the blocks of all requests, in order."""
    first, blocks = runs.astype(numpy.int64).T
    starts = numpy.repeat(first - numpy.concatenate([[0], numpy.cumsum(blocks)[:-1]]), blocks)
    return starts + numpy.arange(blocks.sum())


def write_oracle(path, objects, size=PAGE):
    """Writes a trace of these objects; `size` is one size for all, or one for each request."""
    rows = numpy.zeros(len(objects), ORACLE)
    rows["object"], rows["bytes"], rows["next"] = objects, size, -1
    rows.tofile(path)
