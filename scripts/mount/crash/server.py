"""A MariaDB server with its files on the mount, and clients that remember acknowledged transactions."""

import os
import shutil
import subprocess
import time

from loads import Load, Lost

CLIENT = ["mariadb", "--no-defaults", "--connect-timeout=5", "--user=root", "--batch", "--skip-column-names", "--unbuffered"]


class Gone(OSError):
    """The server or a client has ended or does not answer."""


class MariaDb(Load):
    """Four clients; each transaction inserts a row."""

    name = "mariadb"
    threads = 4
    most_operations = 9000
    most_seconds = 1.5
    MANY = 700
    BODY = "repeat(md5(concat(client, '-', n)), 1 + n % 40)"
    extra = ()

    def __init__(self, seed, scratch):
        super().__init__(seed)
        self.prepared = os.path.join(scratch, "mariadb-prepared")
        self.socket = os.path.join(scratch, "mariadb.sock")
        self.log = os.path.join(scratch, "mariadb.log")
        self.pidfile = os.path.join(scratch, "mariadb.pid")
        self.server = None
        self.reset()

    def reset(self):
        self.last = [0] * self.threads
        self.tried = [0] * self.threads
        self.gone = 0

    def options(self, data):
        return [
            "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={self.socket}", f"--log-error={self.log}",
            f"--pid-file={self.pidfile}.server", "--skip-networking", "--innodb-buffer-pool-size=6M", "--innodb-log-file-size=8M",
            "--innodb-data-file-path=ibdata1:5M:autoextend", "--log-bin=mysql-bin", "--sync-binlog=1", "--max-binlog-size=4M",
            "--expire-logs-days=1", "--performance-schema=OFF", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=1",
            "--innodb-flush-method=" + self.draw.choice(["fsync", "O_DIRECT"]), f"--tmpdir={os.path.dirname(self.socket)}",
            "--innodb-buffer-pool-dump-at-shutdown=OFF", "--innodb-buffer-pool-load-at-startup=OFF", "--key-buffer-size=1M", *self.extra,
        ]

    def prepare(self, directory):
        if not os.path.exists(self.prepared):
            subprocess.run(
                ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={self.prepared}", "--skip-test-db",
                 "--auth-root-authentication-method=normal", "--innodb-log-file-size=8M",
                 "--innodb-data-file-path=ibdata1:5M:autoextend"],
                check=True, capture_output=True,
            )
            self.start(self.prepared)
            self.sql("create database crash; create table crash.entry(client int, n int, body longblob, primary key(client, n),"
                     "key(n)) engine=innodb")
            self.leave()
        self.reset()
        shutil.copytree(self.prepared, os.path.join(directory, "mysql"))
        os.sync()

    def start(self, data):
        with open(self.log, "ab") as log:
            self.server = subprocess.Popen(self.options(data), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        with open(self.pidfile, "w", encoding="ascii") as file:
            file.write(f"{self.server.pid}\n")
        until = time.monotonic() + 40
        while time.monotonic() < until:
            if self.server.poll() is not None:
                raise Gone(f"mariadbd ended with status {self.server.returncode}: {self.errors()}")
            if not self.alive():
                raise Gone("the mount is gone")
            if os.path.exists(self.socket) and subprocess.run(
                    CLIENT + [f"--socket={self.socket}", "-e", "select 1"], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.03)
        raise Gone(f"mariadbd does not answer after 40 s: {self.errors()}")

    def errors(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return " | ".join([line.strip() for line in log if "[ERROR]" in line][-3:])

    def logs(self):
        return [self.log]

    def sql(self, text):
        client = subprocess.Popen(CLIENT + [f"--socket={self.socket}", "-e", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 60
        while True:
            try:
                answer, complaint = client.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired as why:
                # A server without its files may never answer.
                if not self.alive() or time.monotonic() > until:
                    client.kill()
                    client.communicate()
                    raise Gone("a query is not answered") from why
        if client.returncode:
            raise Gone(f"mariadb: {complaint.strip()}")
        return answer

    def end(self):
        if self.server:
            self.server.kill()
            self.server.wait()
            self.server = None
        for leftover in (self.socket, self.pidfile, f"{self.pidfile}.server"):
            if os.path.exists(leftover):
                os.unlink(leftover)

    def leave(self):
        if not self.server:
            return
        self.server.terminate()
        try:
            if self.server.wait(timeout=60):
                raise Gone(f"mariadbd ended with status {self.server.returncode}: {self.errors()}")
        except subprocess.TimeoutExpired as why:
            raise Gone("mariadbd does not stop") from why
        self.server = None
        self.end()

    def work(self, directory, number, stop):
        client = subprocess.Popen(CLIENT + [f"--socket={self.socket}", "crash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, bufsize=1)
        try:
            while not stop.is_set():
                n = self.last[number] + 1
                self.tried[number] = n
                client.stdin.write(f"insert into entry select client, n, {self.BODY} from (select {number} client, {n} n) x;"
                                   f" select {n};\n")
                answer = client.stdout.readline()
                if answer != f"{n}\n":
                    raise Gone(f"the client ended ({answer!r})")
                self.last[number] = n
                self.acknowledged += 1
        finally:
            client.kill()
            client.wait()

    def check(self, directory):
        # The server recovers at its start, and continues to run for the load.
        before = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        self.start(os.path.join(directory, "mysql"))
        with open(self.log, encoding="utf-8", errors="replace") as log:
            log.seek(before)
            damage = [line.strip() for line in log if "[ERROR]" in line or "orrupt" in line]
        if damage:
            raise Lost(f"the server reports: {damage[0]}")
        table = self.sql("check table crash.entry extended")
        if not table.strip().endswith("OK"):
            raise Lost(f"check table: {table}")
        wrong = self.sql(f"select count(*) from crash.entry where body <> {self.BODY}").strip()
        if wrong != "0":
            raise Lost(f"{wrong} rows have other bytes than written")
        found = {}
        for line in self.sql("select client, count(*), min(n), max(n) from crash.entry group by client").splitlines():
            client, count, least, most = map(int, line.split())
            found[client] = (count, least, most)
        for number in range(self.threads):
            count, least, most = found.get(number, (0, 1, 0))
            if count != most - least + 1 or least != 1:
                raise Lost(f"client {number}: {count} rows from {least} to {most}")
            if not self.last[number] <= most <= max(self.tried[number], self.last[number]):
                raise Lost(f"client {number}: {most} rows; {self.last[number]} were acknowledged, {self.tried[number]} tried")
            self.last[number] = most
        if sum(self.last) > self.MANY:
            self.empty(directory)

    def empty(self, directory):
        # If a crash interrupts the truncation, either all rows or none are left.
        kept = list(self.last)
        self.last = [0] * self.threads
        self.tried = kept
        self.sql("truncate crash.entry")
        self.tried = [0] * self.threads


class NoDoublewrite(MariaDb):
    """The same without InnoDB's protection against torn pages."""

    name = "mariadb-nodoublewrite"
    extra = ("--skip-innodb-doublewrite", "--innodb-max-dirty-pages-pct=0", "--innodb-io-capacity=2000")
