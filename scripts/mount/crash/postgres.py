"""A PostgreSQL server with its files on the mount, without full_page_writes, and clients that remember acknowledged transactions."""

import glob
import os
import pwd
import shutil
import subprocess
import time

from loads import Load, Lost
from server import Gone


def programs():
    """The directory of the newest installed server's programs, which is not in PATH on Debian."""
    found = glob.glob("/usr/lib/postgresql/*/bin")
    if not found:
        raise SystemExit("crashes.sh: PostgreSQL is not installed\nhint: scripts/mount/install.sh")
    return max(found, key=lambda path: int(path.split("/")[4]))


class Postgres(Load):
    """Four clients; each transaction inserts a row and changes an older one."""

    name = "postgres-nofullpagewrites"
    threads = 4
    most_operations = 9000
    most_seconds = 1.5
    MANY = 3000
    settings = {"full_page_writes": "off"}
    BODY = "repeat(md5(concat({client}, '-', {n})), 1 + {n} % 20)"

    def __init__(self, seed, scratch):
        super().__init__(seed)
        self.bin = programs()
        self.user = pwd.getpwnam("postgres")
        self.home = os.path.join(scratch, "postgres")
        os.makedirs(self.home, exist_ok=True)
        os.chown(self.home, self.user.pw_uid, self.user.pw_gid)
        self.prepared = os.path.join(self.home, "prepared")
        self.log = os.path.join(self.home, "log")
        self.server = None
        self.reset()

    def reset(self):
        self.last = [0] * self.threads
        self.tried = [0] * self.threads

    def command(self, program, *arguments, **more):
        return subprocess.Popen([os.path.join(self.bin, program), *arguments], user="postgres", group="postgres", extra_groups=[],
                                cwd=self.home, text=True, **more)

    def prepare(self, directory):
        if not os.path.exists(self.prepared):
            made = self.command("initdb", "-D", self.prepared, "-k", "-A", "trust", "-E", "UTF8", "--no-sync",
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            complaint = made.communicate()[1]
            if made.returncode:
                raise SystemExit(f"crashes.sh: initdb: {complaint}")
            self.start(self.prepared)
            self.sql("create table entry(client int, n int, touched int default 0, body text, primary key(client, n))")
            self.sql("create index on entry(n)")
            self.leave()
        self.reset()
        data = os.path.join(directory, "postgres")
        shutil.copytree(self.prepared, data)
        subprocess.run(["chown", "-R", "postgres:postgres", data], check=True)
        os.chmod(data, 0o700)
        os.sync()

    def start(self, data):
        settings = {
            "listen_addresses": "", "unix_socket_directories": self.home, "shared_buffers": "1MB",
            "synchronous_commit": "on", "wal_sync_method": self.draw.choice(["fdatasync", "open_datasync"]),
            "max_wal_size": "32MB", "min_wal_size": "32MB", "checkpoint_timeout": "30s", "bgwriter_delay": "10ms",
            "autovacuum_naptime": "1s", **self.settings,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.log, "ab") as log:
            self.server = self.command("postgres", "-D", data, *options, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        until = time.monotonic() + 40
        while time.monotonic() < until:
            if self.server.poll() is not None:
                raise Gone(f"postgres ended with status {self.server.returncode}: {self.errors()}")
            if not self.alive():
                raise Gone("the mount is gone")
            asked = self.command("psql", "-h", self.home, "-d", "postgres", "-qAtc", "select 1", stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            try:
                if asked.wait(timeout=2) == 0:
                    return
            except subprocess.TimeoutExpired:
                asked.kill()
                asked.wait()
            time.sleep(0.03)
        raise Gone(f"postgres does not answer after 40 s: {self.errors()}")

    def errors(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return " | ".join([line.strip() for line in log if "PANIC" in line or "FATAL" in line][-3:])

    def logs(self):
        return [self.log]

    def sql(self, text):
        client = self.command("psql", "-h", self.home, "-d", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", text,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until = time.monotonic() + 60
        while True:
            try:
                answer, complaint = client.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired as why:
                if not self.alive() or time.monotonic() > until:
                    client.kill()
                    client.communicate()
                    raise Gone("a query is not answered") from why
        if client.returncode:
            raise Gone(f"psql: {complaint.strip()}")
        return answer

    def end(self):
        if self.server:
            # The postmaster's children exit when they notice its death; those that wait for the mount exit with the mount.
            subprocess.run(["pkill", "-KILL", "-s", str(self.server.pid)], check=False)
            self.server.kill()
            self.server.wait()
            self.server = None
        for leftover in glob.glob(os.path.join(self.home, ".s.PGSQL.*")):
            os.unlink(leftover)

    def leave(self):
        if not self.server:
            return
        self.server.terminate()
        self.server.send_signal(2)
        try:
            self.server.wait(timeout=60)
        except subprocess.TimeoutExpired as why:
            raise Gone("postgres does not stop") from why
        self.server = None
        self.end()

    def work(self, directory, number, stop):
        client = self.command("psql", "-h", self.home, "-d", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1",
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=1)
        try:
            while not stop.is_set():
                n = self.last[number] + 1
                self.tried[number] = n
                body = self.BODY.format(client=number, n=n)
                client.stdin.write(f"begin; insert into entry values({number}, {n}, 0, {body}); update entry set touched = {n}"
                                   f" where client = {number} and n = {1 + n * 7919 % n}; commit; select {n};\n")
                answer = client.stdout.readline()
                if answer != f"{n}\n":
                    raise Gone(f"the client ended ({answer!r})")
                self.last[number] = n
                self.acknowledged += 1
        finally:
            client.kill()
            client.wait()

    def check(self, directory):
        before = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        pidfile = os.path.join(directory, "postgres", "postmaster.pid")
        if os.path.exists(pidfile):
            os.unlink(pidfile)
        try:
            self.start(os.path.join(directory, "postgres"))
            body = self.BODY.format(client="client", n="n")
            wrong = self.sql(f"select count(*) from entry where body <> {body}").strip()
        finally:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                log.seek(before)
                damage = [line.strip() for line in log if "PANIC" in line or "invalid page" in line or "page verification failed" in line]
        if damage and self.alive():
            raise Lost(f"the server reports: {damage[0]}")
        if wrong != "0":
            raise Lost(f"{wrong} rows have other bytes than written")
        found = {}
        for line in self.sql("select client, count(*), min(n), max(n) from entry group by client").splitlines():
            client, count, least, most = map(int, line.split("|"))
            found[client] = (count, least, most)
        indexed = self.sql("set enable_seqscan = off; set enable_bitmapscan = off; select count(n) from entry where n > 0").strip()
        if int(indexed) != sum(count for count, _, _ in found.values()):
            raise Lost(f"the index has {indexed} entries for {sum(count for count, _, _ in found.values())} rows")
        for number in range(self.threads):
            count, least, most = found.get(number, (0, 1, 0))
            if count != most - least + 1 or least != 1:
                raise Lost(f"client {number}: {count} rows from {least} to {most}")
            if not self.last[number] <= most <= max(self.tried[number], self.last[number]):
                raise Lost(f"client {number}: {most} rows; {self.last[number]} were acknowledged, {self.tried[number]} tried")
            self.last[number] = most
        if sum(self.last) > self.MANY:
            kept, self.last = list(self.last), [0] * self.threads
            self.tried = kept
            self.sql("truncate entry")
            self.tried = [0] * self.threads
