"""SQLite as an application uses it: documents with an index, a write-ahead log, short transactions of several processes."""

import contextlib
import random
import sqlite3

import truth_loads

# Number of documents at size 1, of 1 KB on average: 200 MB with the index.
DOCUMENTS = 160_000
NAME = "app.db"
SCHEMA = """
create table document(id integer primary key, owner integer not null, changed integer not null, body text not null);
create index document_owner on document(owner, changed);
"""
OWNERS = 5000
WORDS = [f"{a}{b}{c}" for a in ("re", "con", "in", "dis", "pro", "over", "un", "sub") for b in ("vert", "form", "port", "ject", "tain",
         "struct", "mit", "plan") for c in ("", "ed", "ing", "ion", "able", "er")]

serving = truth_loads.nothing_to_serve


def check():
    """Yields nothing: SQLite is part of Python."""
    return ()


def body(draw):
    """Returns text in which a few words are most frequent, as in natural language."""
    count = draw.randint(30, 220)
    return " ".join(WORDS[int(draw.random() ** 3 * len(WORDS))] for _ in range(count))


def connect(folder, synchronous="full", journal="wal"):
    """Opens a connection with the durability and the cache of a careful application."""
    db = sqlite3.connect(folder / NAME, timeout=60, isolation_level=None)
    db.execute(f"pragma journal_mode={journal}")
    db.execute(f"pragma synchronous={synchronous}")
    db.execute("pragma cache_size=-2000")
    return db


def prepare(spec, folder):
    """Prepares the documents."""
    draw = random.Random(1)
    # Texts are drawn from a pool, because generating each one would take minutes.
    bodies = [body(draw) for _ in range(2000)]
    db = connect(folder / "data", "off")
    db.executescript(SCHEMA)
    db.execute("begin")
    count = max(1000, round(DOCUMENTS * spec.get("size", 1.0)))
    db.executemany("insert into document(owner, changed, body) values(?, ?, ?)",
                   ((draw.randrange(OWNERS), n, f"{n} {draw.random()} {bodies[draw.randrange(len(bodies))]}") for n in range(count)))
    db.execute("commit")
    # The last connection writes the log back into the database.
    db.close()


class Clients(truth_loads.ProcessClients):
    """Clients of which half of the transactions only read."""

    JOURNAL = "wal"

    @contextlib.contextmanager
    def connect(self, number):
        draw = self.spec.random(f"client {number}")
        db = connect(self.spec.path("data"), journal=self.JOURNAL)
        count = db.execute("select max(id) from document").fetchone()[0]
        # Most accesses are to a tenth of the documents.
        transaction = Transaction(db, draw, lambda: 1 + int(draw.random() ** 2 * count) * 48271 % count)
        try:
            yield transaction
        finally:
            db.close()


class Transaction:
    """Performs one transaction at each call."""

    def __init__(self, db, draw, some):
        self.db, self.draw, self.some = db, draw, some

    def __call__(self):
        db, draw = self.db, self.draw
        if draw.random() < 0.5:
            for _ in range(3):
                db.execute("select body from document where id = ?", (self.some(),)).fetchall()
            db.execute("select id, changed from document where owner = ? order by changed desc limit 20",
                       (draw.randrange(OWNERS),)).fetchall()
            return
        db.execute("begin immediate")
        db.execute("update document set changed = changed + 1, body = ? where id = ?", (body(draw), self.some()))
        db.execute("insert into document(owner, changed, body) values(?, 0, ?)", (draw.randrange(OWNERS), body(draw)))
        db.execute("delete from document where id = ?", (self.some(),))
        db.execute("commit")
