"""The loop of crashes.sh: mount, check the state after the previous crash, load, crash."""

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

from blocks import Blocks
from loads import Lost, Names, Sqlite
from mounted import CUT, Mounted, NoMount
from postgres import Postgres
from server import MariaDb, NoDoublewrite

KILLED = -9
# A load with this many failures is not continued.
ENOUGH = 5
# Seconds after which a program is considered hung.
HANGS = 60


class Failure(Exception):
    """A failure that the crash does not explain."""


class Round:
    """The crashes of one kind under one load."""

    def __init__(self, options, load, kind, seed, until):
        self.options, self.load, self.kind, self.until = options, load, kind, until
        self.draw = random.Random(seed)
        self.mounted = Mounted(options.poolwright, options.pool, options.set, options.scratch)
        load.alive = self.mounted.alive
        self.done = self.unreached = self.early = 0
        self.failures = []
        self.fresh = True
        # Options of the last mounts before each crash, because a loss that a check finds happened in one of them.
        self.before = []

    def wanted(self):
        return self.options.kills if self.kind == "kills" else self.options.cuts

    def all(self):
        while self.done < self.wanted() and len(self.failures) < ENOUGH and time.monotonic() < self.until:
            mode, power = self.draw.choice(self.options.modes), None
            try:
                if self.fresh:
                    self.begin()
                if self.kind == "cuts":
                    power = self.power()
                self.once(mode, power)
            except (Failure, Lost) as why:
                self.fail(mode, power, why)
            finally:
                self.load.end()
                if self.mounted.process:
                    self.mounted.kill()
        if not self.fresh and not self.options.lie:
            self.final_check()
        self.mounted.forget()

    def begin(self):
        """Creates and fills a new pool."""
        self.mounted.forget()
        self.mounted.up("through")
        self.load.prepare(self.mounted.dir)
        self.load.leave()
        self.mounted.down()
        self.fresh, self.before = False, []

    def power(self):
        most = self.load.most_operations
        # Some power failures hit the import and the replay of the log, most hit the load.
        after = self.draw.randint(1, 300) if self.draw.random() < 0.2 else self.draw.randint(200, most)
        return f"after={after},seed={self.draw.randrange(1 << 30)}" + (",lie" if self.options.lie else "")

    def once(self, mode, power):
        self.before = self.before[-2:] + [f"{mode}{' ' + power if power else ''}"]
        try:
            self.mounted.up(mode, power)
        except NoMount as why:
            if power and f"status {CUT} " in str(why):
                self.crashed(early=True)
                return
            raise Failure(str(why)) from why
        if self.kind == "kills" and self.draw.random() < 0.15:
            # Kill the process during recovery.
            timer = threading.Timer(self.draw.uniform(0, 0.3), self.mounted.process.kill)
            timer.start()
        try:
            self.load.check(self.mounted.dir)
        except Lost as why:
            # Errors of a program on a mount that is just ending prove nothing; the next round checks again.
            if self.mounted.died_of() is None:
                raise
            self.expected(why)
            self.crashed(early=True)
            return
        except (OSError, sqlite3.Error, ValueError) as why:
            self.expected(why)
            self.crashed(early=True)
            return
        self.under_load()

    def under_load(self):
        stop = threading.Event()
        workers = self.load.run(self.mounted.dir, stop)
        if self.kind == "kills":
            time.sleep(self.draw.uniform(0.01, self.load.most_seconds))
        else:
            until = time.monotonic() + 20
            while self.mounted.alive() and time.monotonic() < until and any(w.is_alive() for w in workers):
                time.sleep(0.01)
        refused = list(self.load.refused)
        running = self.mounted.alive() and (not refused or self.mounted.died_of() is None)
        status = self.mounted.kill()
        self.load.end()
        stop.set()
        for worker in workers:
            worker.join(HANGS)
            if worker.is_alive():
                raise Failure(f"a program hangs {HANGS} s after the mount process has ended")
        if running and refused:
            raise Failure(f"an operation failed while the mount process was well: {refused[0]}")
        if status not in (KILLED, CUT) or (status == CUT and self.kind == "kills"):
            raise Failure(f"the mount process ended by itself with status {status}: {self.mounted.log_tail()}")
        if self.kind == "cuts" and status == KILLED:
            self.unreached += 1  # killed before the power failure was reached; checked like any other crash
            return
        self.crashed()

    def expected(self, why):
        """Raises a Failure unless the crash explains the error: the mount process has ended as requested."""
        status = self.mounted.died_of()
        if status is None:
            raise Failure(f"check: {type(why).__name__}: {why}") from why
        if status != (CUT if self.kind == "cuts" else KILLED):
            raise Failure(f"the mount process ended by itself with status {status}: {self.mounted.log_tail()}") from why

    def crashed(self, early=False):
        self.done += 1
        self.early += early

    def final_check(self):
        """Checks the state after the last crash, exports and imports the pool, and checks it again."""
        try:
            for _ in range(2):
                self.mounted.up("through")
                self.load.check(self.mounted.dir)
                self.load.leave()
                self.mounted.down()
            zdb = subprocess.run(["zdb", "-e", "-p", self.mounted.vdev, "-bcc", self.options.pool], capture_output=True, text=True, check=False)
            if zdb.returncode:
                raise Failure(f"zdb -bcc: {(zdb.stderr or zdb.stdout).strip()[-300:]}")
        except (Failure, Lost, NoMount, OSError, RuntimeError, sqlite3.Error) as why:
            self.fail("through", None, why)
        finally:
            self.load.end()
            if self.mounted.process:
                self.mounted.kill()

    def fail(self, mode, power, why):
        number = len(self.failures) + 1
        self.failures.append(why)
        self.fresh = True
        before = "; before it: " + ", ".join(self.before[:-1]) if self.before[1:] else ""
        print(f"  {self.load.name} {self.kind} #{self.done + 1} ({mode}{' ' + power if power else ''}{before}): "
              f"{type(why).__name__}: {why}", flush=True)
        self.mounted.keep(os.environ.get("POOLWRIGHT_KEEP_POOLS"), f"{self.load.name}-{self.kind}-{number}", self.load.logs())


def parse():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--poolwright", required=True)
    arguments.add_argument("--pool", required=True)
    arguments.add_argument("--set", action="append", default=[], metavar="PROPERTY=VALUE")
    arguments.add_argument("--scratch", required=True)
    arguments.add_argument("--kills", type=int, default=8)
    arguments.add_argument("--cuts", type=int, default=8)
    arguments.add_argument("--loads", default="sqlite,names,blocks,mariadb")
    arguments.add_argument("--modes", default="through,pages,writeback")
    arguments.add_argument("--minutes", type=float, default=600)
    arguments.add_argument("--seed", type=int, default=None)
    arguments.add_argument("--lie", action="store_true")
    arguments.add_argument("--expect-damage", action="store_true")
    options = arguments.parse_args()
    options.modes = options.modes.split(",")
    options.loads = options.loads.split(",")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    return options


def main():
    options = parse()
    makers = {"sqlite": Sqlite, "names": Names, "blocks": Blocks, "mariadb": lambda seed: MariaDb(seed, options.scratch),
              "mariadb-nodoublewrite": lambda seed: NoDoublewrite(seed, options.scratch),
              "postgres-nofullpagewrites": lambda seed: Postgres(seed, options.scratch)}
    until = time.monotonic() + options.minutes * 60
    # Exit through the finally blocks, so that nothing stays mounted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"seed {options.seed}", flush=True)
    failed = crashes = 0
    for name in options.loads:
        for kind in ("cuts",) if options.lie else ("kills", "cuts"):
            if not (options.kills if kind == "kills" else options.cuts):
                continue
            began = time.monotonic()
            load = makers[name](f"{options.seed} {name} {kind}")
            one = Round(options, load, kind, f"{options.seed} {name} {kind} crash", until)
            one.all()
            failed, crashes = failed + len(one.failures), crashes + one.done
            counts = f"{one.done} {kind}, {one.early} of them before or during recovery"
            if one.unreached:
                counts += f" (and {one.unreached} kills before the power failure)"
            print(f"{name} {'ok' if not one.failures else 'FAILED'}: {counts}; {load.acknowledged} acknowledged, "
                  f"{len(one.failures)} failures; {time.monotonic() - began:.0f} s", flush=True)
    print(f"{crashes} crashes, {failed} failures")
    if options.lie:
        sys.exit(0 if failed else "crashes.sh: no loss found although flushes were ignored: the tests cannot detect losses")
    if options.expect_damage:
        sys.exit(0 if failed else "crashes.sh: no damage found, although this configuration is expected to cause it")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
