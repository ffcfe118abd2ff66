"""Loads that remember acknowledged operations, and check after a crash that they are there.

`prepare(dir)` fills a new pool. `run(dir, stop)` works and counts acknowledgements, until an operation fails or `stop` is set.
`check(dir)` raises Lost if an acknowledged operation is missing or anything is damaged; otherwise it takes the found state as the new
one (an operation in flight may or may not have happened).
"""

import os
import random
import sqlite3
import threading


class Lost(Exception):
    """An acknowledged operation is missing, or a consistency check failed."""


def sync(path):
    """fsync of a directory."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Load:
    """Threads that work until an error (the crash) or until they are stopped."""

    threads = 1
    # Limits for the time of the crash: writes and flushes of a vdev, and seconds.
    most_operations = 5000
    most_seconds = 0.8

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.acknowledged = 0
        self.refused = []
        # Whether the mount process is running; the caller sets it.
        self.alive = lambda: True

    def end(self):
        """Kills the load's programs after a crash."""

    def logs(self):
        """Paths of the logs of its programs."""
        return []

    def leave(self):
        """Stops the programs that `check` has started."""

    def run(self, directory, stop):
        self.refused = []
        workers = [threading.Thread(target=self._work, args=(directory, n, stop)) for n in range(self.threads)]
        for worker in workers:
            worker.start()
        return workers

    def _work(self, directory, number, stop):
        try:
            self.work(directory, number, stop)
        except (OSError, sqlite3.Error) as why:
            # Expected if the mount process has ended, which the caller checks.
            self.refused.append(f"{type(why).__name__}: {why}")


def blob(thread, number):
    draw = random.Random(f"{thread} {number}")
    return draw.randbytes(draw.choice([0, 10, 300, 3000, 9000, 40000]))


class Sqlite(Load):
    """Transactions of one row. A second table counts the rows, so that an incomplete transaction is detected."""

    name = "sqlite"
    journals = ("wal", "delete")
    threads = 2
    # Rows after which a table is emptied, so that checks stay short.
    MANY = 1500

    def __init__(self, seed):
        super().__init__(seed)
        self.last = [0, 0]
        self.tried = [0, 0]
        # The possible numbers of the first row: two while older rows are being deleted.
        self.first = [{1}, {1}]

    @staticmethod
    def place(directory):
        """A subdirectory, because the mount point also exists without the mount, and programs would not notice its end."""
        return os.path.join(directory, "db")

    def open(self, directory, number):
        db = sqlite3.connect(os.path.join(self.place(directory), f"{self.journals[number]}.db"), timeout=20, isolation_level=None)
        db.execute(f"pragma journal_mode={self.journals[number]}")
        # With a rollback journal, removing the journal is the commit. SQLite syncs the directory only with EXTRA, as documented.
        db.execute(f"pragma synchronous={'full' if self.journals[number] == 'wal' else 'extra'}")
        db.execute("pragma wal_autocheckpoint=50")
        return db

    def prepare(self, directory):
        os.mkdir(self.place(directory))
        sync(directory)
        for number in range(self.threads):
            db = self.open(directory, number)
            db.executescript("create table entry(n integer primary key, body blob); create table sum(n integer);"
                             "create index body on entry(body); insert into sum values(0);")
            db.close()
        self.last, self.tried, self.first = [0, 0], [0, 0], [{1}, {1}]

    def work(self, directory, number, stop):
        db = self.open(directory, number)
        try:
            while not stop.is_set():
                n = self.last[number] + 1
                self.tried[number] = n
                db.execute("begin immediate")
                db.execute("insert into entry values(?, ?)", (n, blob(number, n)))
                db.execute("update sum set n = ?", (n,))
                db.execute("commit")
                if self.journals[number] == "delete":
                    # SQLite reports a commit even if it cannot open the directory for that sync, because the mount has just
                    # ended. The commit counts only after this sync.
                    sync(self.place(directory))
                self.last[number] = n
                self.acknowledged += 1
        finally:
            db.close()

    def check(self, directory):
        for number in range(self.threads):
            self.check_one(directory, number)

    def check_one(self, directory, number):
        which = self.journals[number]
        db = self.open(directory, number)
        try:
            try:
                found = db.execute("pragma integrity_check").fetchall()
                rows = db.execute("select n, body from entry order by n").fetchall()
                total = db.execute("select n from sum").fetchone()[0]
            except sqlite3.DatabaseError as why:
                if type(why) is sqlite3.DatabaseError or "malformed" in str(why):
                    raise Lost(f"{which}: {why}") from why
                raise
            if found != [("ok",)]:
                raise Lost(f"{which}: integrity_check: {found[:3]}")
            numbers = [n for n, _ in rows]
            if not any(numbers == list(range(first, total + 1)) for first in self.first[number]):
                raise Lost(f"{which}: rows {numbers[:1]}…{numbers[-1:]}, {len(rows)} of them, do not fit the count {total}")
            if not self.last[number] <= total <= max(self.tried[number], self.last[number]):
                raise Lost(f"{which}: {total} rows; {self.last[number]} were acknowledged, {self.tried[number]} tried")
            for n, body in rows:
                if body != blob(number, n):
                    raise Lost(f"{which}: row {n} has other bytes than written")
            self.last[number] = total
            self.first[number] = {numbers[0] if numbers else 1}
            if len(rows) > self.MANY:
                self.first[number].add(total)
                db.execute("delete from entry where n < ?", (total,))
                self.first[number] = {total}
        finally:
            db.close()


class Names(Load):
    """Files are written, synced, renamed over others, linked, removed, and moved between directories.

    Each thread has its own names and tracks their state. After a crash, the tree and its contents must be as before or as after the
    one operation in flight.
    """

    name = "names"
    threads = 3
    SLOTS = 40
    DIRECTORIES = ("a", "b")

    def __init__(self, seed):
        super().__init__(seed)
        self.number = 0
        self.lock = threading.Lock()
        self.reset()

    def reset(self):
        # For each thread: the number of the blob in each file, by name; and the state after the operation in flight.
        self.names = [{} for _ in range(self.threads)]
        self.flying = [None] * self.threads

    def prepare(self, directory):
        self.reset()
        for thread in range(self.threads):
            for one in self.DIRECTORIES:
                os.makedirs(os.path.join(directory, str(thread), one))
            sync(os.path.join(directory, str(thread)))
        sync(directory)

    def work(self, directory, thread, stop):
        top = os.path.join(directory, str(thread))
        with self.lock:
            draw = random.Random(self.draw.random())
        while not stop.is_set():
            before = self.names[thread]
            after = dict(before)
            touched = self.change(draw, thread, top, before, after)
            if not touched:
                continue
            for one in touched:
                sync(os.path.join(top, one))
            self.names[thread], self.flying[thread] = after, None
            self.acknowledged += 1

    def change(self, draw, thread, top, before, after):
        """Performs one operation; returns the directories to sync before it counts as acknowledged."""
        kind = draw.choices(["write", "move", "link", "unlink"], [6, 2, 1, 1])[0]
        where = draw.choice(self.DIRECTORIES)
        name = f"{where}/{draw.randrange(self.SLOTS)}"
        old = draw.choice(sorted(before)) if before else None
        if kind == "write" or old is None:
            with self.lock:
                self.number += 1
                after[name] = self.number
            self.flying[thread] = after
            self.write(draw, thread, top, where, name, after[name])
            return [where]
        if kind == "move":
            if name == old or before.get(name) == before[old]:
                return []  # rename between two links of one file does nothing
            after[name] = after.pop(old)
            self.flying[thread] = after
            os.rename(os.path.join(top, old), os.path.join(top, name))
            return sorted({where, old.split("/")[0]})
        if kind == "link":
            if name in before:
                return []
            after[name] = before[old]
            self.flying[thread] = after
            os.link(os.path.join(top, old), os.path.join(top, name))
            return [where]
        del after[old]
        self.flying[thread] = after
        os.unlink(os.path.join(top, old))
        return [old.split("/")[0]]

    @staticmethod
    def write(draw, thread, top, where, name, number):
        body = blob(thread, number)
        scratch = os.path.join(top, where, "tmp")
        fd = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            at = 0
            while at < len(body):
                length = min(len(body) - at, draw.choice([100, 4096, 20000]))
                at += os.write(fd, body[at : at + length])
            (os.fsync if draw.random() < 0.5 else os.fdatasync)(fd)
        finally:
            os.close(fd)
        os.rename(scratch, os.path.join(top, name))

    def check(self, directory):
        for thread in range(self.threads):
            top = os.path.join(directory, str(thread))
            found = {}
            for one in self.DIRECTORIES:
                for entry in os.listdir(os.path.join(top, one)):
                    if entry == "tmp":
                        continue  # not renamed yet, so not acknowledged
                    with open(os.path.join(top, one, entry), "rb") as file:
                        found[f"{one}/{entry}"] = file.read()
            before, after = self.names[thread], self.flying[thread]
            states = [before] if after is None else [before, after]
            wrong = [self.differences(thread, state, found) for state in states]
            if all(wrong):
                raise Lost(f"thread {thread}: against the acknowledged: {wrong[0]}; against the one in flight: {wrong[-1]}")
            self.names[thread] = dict(states[wrong.index("")])
            self.flying[thread] = None

    @staticmethod
    def differences(thread, state, found):
        missing = sorted(set(state) - set(found))[:3]
        extra = sorted(set(found) - set(state))[:3]
        other = [f"{n} ({len(found[n])} bytes, expected {len(blob(thread, state[n]))})"
                 for n in sorted(set(state) & set(found)) if found[n] != blob(thread, state[n])][:3]
        parts = [("missing", missing), ("extra", extra), ("other content", other)]
        return "; ".join(f"{what} {names}" for what, names in parts if names)
