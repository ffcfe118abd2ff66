#!/usr/bin/env python3
"""Runs Poolwright's commands as root on a database whose user works against them (attacker.py), and checks after each that nothing
outside the database's directories was read, created, changed or removed.

usage: commands.py PROGRAM SECONDS [SEED]

A command may succeed, fail or be refused. It must not change or read the canary (a directory of root to which the attacker's links
lead), take longer than its time limit (a fifo in the place of a file), or panic. With EXAMPLES=1 in the environment, an example of the last
lines of each command and status follows at the end. Needs root, /dev/fuse, sqlite3 and the user `nobody`.

Exit status: 0 nothing found, 1 something was found, 2 wrong usage.
"""

import json
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ATTACKERS = 2
# Time limit of a command in seconds.
LIMIT = 240
USER = pwd.getpwnam("nobody")
AS_USER = ["setpriv", "--reuid", str(USER.pw_uid), "--regid", str(USER.pw_gid), "--clear-groups", "--pdeathsig", "KILL", "--"]
MARK = "the canary of root"
# The statuses of commands that did their work. `confirm` says with 4 that no setting is better.
DONE = {"confirm": (0, 4)}


def is_secret(path, canary):
    """Whether the database's user cannot read a file of the canary. What he can read, programs that run as him may read."""
    above = [directory for directory in path.parents if directory.is_relative_to(canary)]
    return not path.lstat().st_mode & 0o004 or not all(directory.lstat().st_mode & 0o001 for directory in above)


def digest(canary):
    """Everything that a command could change. Access times tell that a secret file was read, because each is older than its modification
    time (`relatime`). Reading here does not change them."""
    found = {}
    for path in [canary, *sorted(canary.rglob("*"))]:
        meta = path.lstat()
        content = b""
        if path.is_file():
            with open(os.open(path, os.O_RDONLY | os.O_NOATIME), "rb") as file:
                content = file.read()
        found[str(path.relative_to(canary))] = (
            meta.st_mode, meta.st_uid, meta.st_gid, meta.st_nlink, meta.st_ino, meta.st_mtime_ns, meta.st_ctime_ns,
            meta.st_atime_ns if path.is_file() and is_secret(path, canary) else 0, content, tuple(os.listxattr(path, follow_symlinks=False)),
        )  # fmt: skip
    return found


def make_canary(canary):
    for name, mode in (("closed", 0o700), ("open", 0o755), ("closed/inner", 0o700)):
        (canary / name).mkdir(mode=mode)
    for name, mode in (("secret", 0o600), ("closed/file", 0o600), ("closed/inner/file", 0o644), ("open/readable", 0o644)):
        (canary / name).write_text(f"{MARK}: {name}\n")
        (canary / name).chmod(mode)
        os.utime(canary / name, (1_000_000_000, 1_500_000_000))
    canary.chmod(0o755)


class Machine:
    """A pool, the database's dataset, and the files of the commands."""

    def __init__(self, program, seed):
        self.program, self.random = program, random.Random(seed)
        self.top = Path(tempfile.mkdtemp(prefix="poolwright-baseile-", dir="/var/tmp"))
        self.top.chmod(0o755)
        self.canary = self.top / "canary"
        self.canary.mkdir()
        make_canary(self.canary)
        self.database, self.restored, self.scratch = self.top / "db", self.top / "restored", self.top / "scratch"
        self.mounts = [(self.top / "m", "tank"), (self.database, "tank/db"), (self.restored, "tank/restored")]
        self.attackers, self.restores = [], 0
        # Pools and journals of this run only.
        self.environment = os.environ | {
            "POOLWRIGHT_STATE_DIR": str(self.top / "state"), "POOLWRIGHT_RUNTIME_DIR": str(self.top / "run"),
            "TMPDIR": str(self.scratch), "LC_ALL": "C.UTF-8",
        }  # fmt: skip
        for directory in (self.top / "work", self.scratch):
            directory.mkdir(mode=0o755)

    def run(self, *arguments, check=True, limit=LIMIT):
        """The status and the messages of a command. A status of None says that it took too long."""
        command = [self.program, *map(str, arguments)]
        child = subprocess.Popen(command, cwd=self.top / "work", env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)  # fmt: skip
        try:
            said = child.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return None, child.communicate()[0]
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        if check and child.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {said}")
        return child.returncode, said

    def prepare(self):
        self.run("pool", "create", "tank", f"{self.top}/pool.img:3G", "-o", "ashift=12")
        for directory, dataset in self.mounts:
            directory.mkdir()
            if dataset != "tank":
                self.run("dataset", "create", dataset)
            self.run("mount", dataset, directory, "--background", "--arc", "128M")
        for name in ("base", "base/deep", "log"):
            (self.database / name).mkdir()
        for number in range(12):
            name = ("base", "base/deep", "log")[number % 3]
            (self.database / name / f"table{number}").write_bytes(self.random.randbytes(30_000) * 10)
        rows = "create table t (k integer primary key, v text);" + "insert into t (v) values (hex(randomblob(300)));" * 400
        subprocess.run(["sqlite3", self.database / "shop.db", rows], check=True)
        for directory in (self.database, self.restored):
            for path in [directory, *directory.rglob("*")]:
                os.chown(path, USER.pw_uid, USER.pw_gid)
        subprocess.run(["cp", "-a", self.database, self.top / "whole"], check=True)
        self.plan("plan.json")

    def make_whole(self):
        """Gives the database's user his files again: what the attacks have broken, commands refuse at once."""
        script = 'find "$1" -mindepth 1 -delete; cp -a "$2/." "$1"'
        subprocess.run([*AS_USER, "sh", "-c", script, "sh", self.database, self.top / "whole"], stderr=subprocess.DEVNULL, check=False)

    def plan(self, name):
        """docs/examples/plan.json, for this database."""
        plan = json.loads((ROOT / "docs" / "examples" / "plan.json").read_text())
        plan["subject"] = {"directory": str(self.database), "database": "SQLite", "file_system": "fuse.poolwright", "dataset": "tank/db", "files": 1,
                           "bytes": 1, "allocated_bytes": 1}  # fmt: skip
        role = plan["roles"][0]
        role |= {"place": {"mountpoint": str(self.database), "separable": True}, "paths": [str(self.database)],
                 "path": str(self.database), "current": {}, "recommended": {"recordsize": "16K", "compression": "zstd-3"},
                 "together_with": []}  # fmt: skip
        plan["roles"], plan["database"] = [role], []
        (self.top / "work" / name).write_text(json.dumps(plan))

    def attack(self, seed):
        shutil.copy(HERE / "attacker.py", self.top / "attacker.py")
        (self.top / "attacker.py").chmod(0o755)
        patterns = [self.database, self.restored / "*", self.scratch / "poolwright-*" / "*", "/dev/shm/poolwright-*/*"]
        for number in range(ATTACKERS):
            command = [*AS_USER, sys.executable, self.top / "attacker.py", str(seed + number), self.canary, *patterns]
            self.attackers.append(subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL))

    def commands(self):
        """The commands of one round; each is a name and its arguments."""
        to = ("--to", "tank/backup", "--mountpoint", self.top / "backup")
        yield "apply --online", ("apply", "plan.json", "--yes", "--online", "--stop", "true", "--start", "true")
        yield "undo", ("undo", "plan.json", "--yes", "--stop", "true", "--start", "true")
        yield "backup run", ("backup", "run", self.database, *to)
        yield "backup verify", ("backup", "verify", "tank/backup", "--scratch", self.scratch)
        yield "backup run --database none", ("backup", "run", self.database, "--to", "tank/files", "--mountpoint", self.top / "files",
                                             "--database", "none")  # fmt: skip
        yield "backup prune", ("backup", "prune", "tank/backup", "--keep", "2")
        self.restores += 1
        yield "backup restore", ("backup", "restore", "tank/backup", "--to", self.restored / f"at{self.restores}")
        subprocess.run([*AS_USER, "rm", "-rf", self.restored / f"at{self.restores - 1}"], stderr=subprocess.DEVNULL, check=False)
        yield "confirm", ("confirm", "plan.json", "--load", "true", "--blocks", "2", "--scratch", self.scratch, "-o", "confirmation.json",
                          "--report", "confirmed.html", "--force")  # fmt: skip

    def clean_up(self):
        for attacker in self.attackers:
            attacker.kill()
            attacker.wait()
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for directory in reversed([path for path in mounted if path.startswith(f"{self.top}/")]):
            subprocess.run(["umount", "--lazy", directory], stderr=subprocess.DEVNULL, check=False)
        self.run("pool", "export", "tank", check=False)
        shutil.rmtree(self.top, ignore_errors=True)


def rehearse(machine):
    """Runs each command once without attacks: only one that works is worth attacking."""
    for name, arguments in machine.commands():
        status, said = machine.run(*arguments, check=False)
        if status not in DONE.get(name, (0,)):
            raise RuntimeError(f"{name} does not work without attacks: exit status {status}: {said}")


def rounds(machine, seconds):
    """Runs the commands for a time. Yields what was found."""
    before, end, counts, longest, examples = digest(machine.canary), time.monotonic() + seconds, {}, {}, {}
    while time.monotonic() < end:
        for name, arguments in machine.commands():
            machine.make_whole()
            begin = time.monotonic()
            status, said = machine.run(*arguments, check=False)
            longest[name] = max(longest.get(name, 0), time.monotonic() - begin)
            counts.setdefault(name, {}).setdefault(status, 0)
            counts[name][status] += 1
            examples[name, status] = said.strip().splitlines()[-3:]
            after = digest(machine.canary)
            changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
            if changed:
                yield f"{name}: changed or read outside of the database's directories: {', '.join(changed)}\n{said}"
                before = after
            if status is None:
                yield f"{name}: did not end within {LIMIT} s\n{said}"
            if "panicked" in said or "internal error" in said:
                yield f"{name}: {said}"
            if any(attacker.poll() is not None for attacker in machine.attackers):
                yield "an attacker has ended"
                return
            if time.monotonic() >= end:
                break
    for name, statuses in counts.items():
        often = "  ".join(f"{number} x exit status {status}" for status, number in sorted(statuses.items(), key=str))
        print(f"{name:28} at most {longest[name]:3.0f} s  {often}")
    if os.environ.get("EXAMPLES"):
        print("\n".join(f"{name}, {status}: {' | '.join(lines)}" for (name, status), lines in examples.items()))


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    program, seconds = sys.argv[1], float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) == 4 else int(time.time())
    print(f"seed {seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine, found = Machine(os.path.abspath(program), seed), 0
    try:
        machine.prepare()
        rehearse(machine)
        machine.attack(seed)
        for text in rounds(machine, seconds):
            found += 1
            print(text, flush=True)
    finally:
        machine.clean_up()
    print(f"{found} found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
