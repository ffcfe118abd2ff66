"""Prints the miss ratios of libcachesim, in a separate process.

usage: reference.py TRACE MODEL THREADS SIZE...

TRACE is oracleGeneral, MODEL is LRU or ARC. Sizes are in objects, or in bytes if the first begins with `bytes:`. libcachesim's C code
simulates each size in a thread with its own reader, without Python's lock. Prints one JSON object: the miss ratios in the order
of the sizes.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import libcachesim

trace, model, threads, *sizes = sys.argv[1:]
in_bytes = sizes[0].startswith("bytes:")
sizes = [int(size.removeprefix("bytes:")) for size in sizes]


def miss_ratio(size):
    reader = libcachesim.TraceReader(
        trace,
        libcachesim.TraceType.ORACLE_GENERAL_TRACE,
        libcachesim.ReaderInitParam(ignore_obj_size=not in_bytes),
    )
    # The default hash table has 2^24 slots for each cache; one that fits these traces is faster.
    cache = getattr(libcachesim, model)(cache_size=size, hashpower=20)
    return cache.process_trace(reader)[0]


with ThreadPoolExecutor(int(threads)) as pool:
    print(json.dumps({"version": libcachesim.__version__, "miss_ratios": list(pool.map(miss_ratio, sizes))}))
