"""Makes the files with structure for the part `space` of scripts/test-kernel.sh: SQLite, log, JSON, sparse.

usage: space_data.py make DIR        makes DIR/sqlite, DIR/log, DIR/json, DIR/sparse; the same bytes each time
       space_data.py extents DIR     prints the data ranges of all files below DIR: path, length, START+LENGTH... (bytes)
"""

import json
import os
import random
import sqlite3
import sys
from pathlib import Path

MIB = 1 << 20
WORDS = """account index request session timeout worker cache commit retry page buffer client server query table replica
checkpoint archive segment vacuum lock queue message payload header backup restore cursor shard cluster region tenant""".split()
PATHS = ["/", "/login", "/api/v1/orders", "/api/v1/orders/{}", "/api/v1/customers/{}", "/static/app.js", "/search?q={}"]
LEVELS = ["INFO"] * 12 + ["DEBUG"] * 5 + ["WARN"] * 2 + ["ERROR"]
CITIES = ["Leipzig", "Lyon", "Porto", "Gdansk", "Turku", "Ghent", "Graz", "Cork", "Bari", "Brno"]
# Lengths at which a file changes between embedded, one block, and several blocks.
EDGES = [1, 60, 112, 511, 513, 3000, 4097, 20_000, 100_000, 131_073, 300_000]


def sentence(rng, words):
    return " ".join(rng.choice(WORDS) for _ in range(words))


def log_lines(rng, size):
    """Lines of a web server's log: increasing times, few levels and paths, skewed identifiers."""
    written, now = 0, 1_700_000_000_000
    while written < size:
        now += int(rng.expovariate(1 / 40)) + 1
        path = rng.choice(PATHS).format(int(rng.paretovariate(0.8)) % 100_000)
        line = (
            f"{now // 1000}.{now % 1000:03d} {rng.choice(LEVELS):5} worker-{rng.randrange(16):02d} "
            f"10.{rng.randrange(4)}.{rng.randrange(256)}.{rng.randrange(256)} GET {path} {rng.choice([200] * 9 + [404])} "
            f"{int(rng.lognormvariate(3, 1))}ms {sentence(rng, rng.randrange(2, 9))}\n"
        )
        written += len(line)
        yield line


def documents(rng, size):
    """JSON documents of orders, one a line."""
    written, number = 0, 100_000
    while written < size:
        number += 1
        items = [
            {"sku": f"SKU-{rng.randrange(5000):05d}", "name": sentence(rng, 2), "quantity": rng.randrange(1, 6),
             "price": round(rng.lognormvariate(3, 0.7), 2)}
            for _ in range(rng.randrange(1, 6))
        ]
        document = {
            "order": number, "customer": int(rng.paretovariate(0.9)) % 40_000, "city": rng.choice(CITIES), "items": items,
            "paid": rng.random() < 0.9, "note": sentence(rng, 6) if rng.random() < 0.2 else None,
        }
        line = json.dumps(document) + "\n"
        written += len(line)
        yield line


def write_text(path, lines):
    with open(path, "w", encoding="ascii") as out:
        out.writelines(lines)


def small_files(dir, text):
    """Files with lengths around the limits of embedded, single and multiple blocks."""
    for n, length in enumerate(EDGES):
        (dir / f"small.{length}").write_bytes(text[n * 1000 : n * 1000 + length])


def make_sqlite(path, rng):
    connection = sqlite3.connect(path)
    connection.executescript(
        "PRAGMA page_size=4096; PRAGMA journal_mode=OFF;"
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, since INTEGER);"
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, placed INTEGER, total REAL, note TEXT);"
        "CREATE INDEX orders_customer ON orders (customer); CREATE INDEX customers_name ON customers (name);"
    )
    customers = ((n, sentence(rng, 2), rng.choice(CITIES), 1_600_000_000 + rng.randrange(10**8)) for n in range(30_000))
    connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", customers)
    orders = (
        (n, int(rng.paretovariate(0.9)) % 30_000, 1_650_000_000 + n * 37, round(rng.lognormvariate(4, 1), 2), sentence(rng, rng.randrange(3, 12)))
        for n in range(80_000)
    )
    connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", orders)
    connection.execute("DELETE FROM orders WHERE id % 9 = 4")
    connection.commit()
    connection.close()


def make_sparse(path, pages, text):
    """A file of 24 MiB with data in some ranges of 4K pages, of which one contains written zeros."""
    with open(path, "wb") as out:
        for at, length, source in [
            (0, 2 * MIB, pages), (3 * MIB + 4096, 12_288, text), (5 * MIB, 3 * MIB, text), (9 * MIB + 65_536, 4096, pages),
            (12 * MIB, 2 * MIB + 8192, pages), (17 * MIB - 4096, 8192, text), (20 * MIB + 131_072, MIB, text),
        ]:
            out.seek(at)
            out.write(source[at % MIB : at % MIB + length])
        out.seek(10 * MIB)
        out.write(bytes(512 * 1024))
        out.truncate(24 * MIB - 1000)


def make(root):
    rng = random.Random(1)
    for name in ("sqlite", "log", "json", "sparse"):
        (root / name).mkdir(parents=True)
    make_sqlite(root / "sqlite/orders.db", rng)
    write_text(root / "log/access.log", log_lines(rng, 10 * MIB))
    write_text(root / "json/orders.jsonl", documents(rng, 9 * MIB))
    text = (root / "log/access.log").read_bytes()
    small_files(root / "log", text)
    small_files(root / "json", (root / "json/orders.jsonl").read_bytes())
    make_sparse(root / "sparse/image", (root / "sqlite/orders.db").read_bytes(), text)


def data_ranges(path):
    """The ranges of a file that contain data; the whole file unless it has fewer blocks than bytes."""
    stat = path.stat()
    if stat.st_blocks * 512 >= stat.st_size:
        return [(0, stat.st_size)]
    ranges, at = [], 0
    with open(path, "rb") as file:
        while at < stat.st_size:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            ranges.append((start, at - start))
    return ranges


def extents(root):
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        ranges = " ".join(f"{start}+{length}" for start, length in data_ranges(path))
        print(path.relative_to(root), path.stat().st_size, ranges, sep="\t")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "extents"):
        print(__doc__, file=sys.stderr)
        return 2
    {"make": make, "extents": extents}[sys.argv[1]](Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
