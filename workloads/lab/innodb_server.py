"""A private MariaDB in its own directory: the layout of workloads/mariadb/server.sh, as a child of the driver."""

import os
import shutil
import subprocess
from pathlib import Path

from common import server
from common.driver import Failure, created, log

MARIADB = Path(__file__).resolve().parent.parent / "mariadb"
START_S = 90
# The server first writes its dirty pages, which takes a while on a slow disk; after SIGTERM to the driver there is
# less time.
END_S = 120
# The kernel's limit for the path of a socket.
SOCKET_PATH = 107


def check():
    """Yields a line for each missing requirement."""
    for program, package in (
        ("mariadbd", "mariadb-server-core"),
        ("mariadb-install-db", "mariadb-server-core"),
        ("mariadb", "mariadb-client-core"),
        ("sysbench", "sysbench"),
    ):
        yield from server.missing(program, package)


class MariaDb:
    """A server that is stopped at the end of the `with` block. `folder` contains configuration, socket and logs. `options` are
    lines of my.cnf that override the usual ones; None removes a line."""

    def __init__(self, name, folder, datadir, before=(), **options):
        self.name, self.folder, self.datadir = name, Path(folder), Path(datadir)
        self.before, self.options = list(before), {name.replace("_", "-"): value for name, value in options.items()}
        self.process = None

    @property
    def configuration(self):
        return self.folder / "my.cnf"

    @property
    def socket(self):
        return self.folder / "mariadb.sock"

    def __enter__(self):
        if len(str(self.socket)) > SOCKET_PATH:
            raise Failure(f"the scratch directory's path is too long for a Unix socket: {self.socket}")
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        if not self.datadir.exists() or not any(self.datadir.iterdir()):
            self._install()
        self._configure()
        self.process = server.Server(
            self.name, [*self.before, server.find("mariadbd"), f"--defaults-file={self.configuration}"], self.folder)
        self.process.__enter__()
        try:
            self.process.wait_ready(self._answers, START_S)
        except BaseException:
            self.process.stop()
            raise
        log(f"MariaDB {self.sql('SELECT VERSION()')}, {self.name}")
        return self

    def __exit__(self, kind, *_):
        self.process.stop(END_S if kind is None else server.STOP_S)

    def ask_to_stop(self):
        """Requests the shutdown without waiting; the end of the `with` block waits."""
        self.process.process.terminate()

    def sql(self, text, names=False):
        """Returns the output of the statements, by default without column names."""
        done = subprocess.run(
            ["mariadb", f"--defaults-file={self.configuration}", "--batch", "--execute", text,
             *([] if names else ["--skip-column-names"])], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"{self.name} refused a statement: {done.stderr.strip()}")
        return done.stdout.strip()

    def session(self):
        """Returns a client that stays connected."""
        return Session(self)

    def _answers(self):
        return self.socket.exists() and subprocess.run(
            ["mariadb", f"--defaults-file={self.configuration}", "--execute", "SELECT 1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def _install(self):
        self.datadir.mkdir(parents=True, exist_ok=True)
        user = ["--user=root"] if os.getuid() == 0 else []
        server.run(f"{self.name}-install", [
            server.find("mariadb-install-db"), "--no-defaults", *user, f"--datadir={self.datadir}", "--skip-test-db",
            "--auth-root-authentication-method=normal", "--innodb-page-size=16k",
            f"--innodb-log-file-size={self._settings()['innodb-log-file-size']}"], self.folder)

    def _settings(self):
        usual = {
            "datadir": self.datadir,
            "socket": self.socket,
            "pid-file": self.folder / "pid",
            "tmpdir": self.folder / "tmp",
            "skip-networking": "",
            "skip-name-resolve": "",
            "character-set-server": "utf8mb4",
            "local-infile": "OFF",
            "innodb-page-size": "16k",
            "innodb-buffer-pool-size": "64M",
            "innodb-log-file-size": "32M",
            "innodb-flush-log-at-trx-commit": 1,
            "innodb-file-per-table": "ON",
            "innodb-buffer-pool-dump-at-shutdown": "OFF",
            "innodb-buffer-pool-load-at-startup": "OFF",
            # Caches of engines that are not used here; one of the studies counts the memory.
            "key-buffer-size": "8M",
            "aria-pagecache-buffer-size": "8M",
            "server-id": 1,
            **({"user": "root"} if os.getuid() == 0 else {}),
        }
        return {name: value for name, value in {**usual, **self.options}.items() if value is not None}

    def _configure(self):
        lines = [f"{name} = {value}" if value != "" else name for name, value in self._settings().items()]
        self.configuration.write_text(
            "# Written by workloads/lab/innodb; the server and its clients read this file only.\n"
            f"[client]\nsocket = {self.socket}\nuser = root\n\n[mariadbd]\n" + "\n".join(lines) + "\n")


class Session:
    """One connection for many small statements, because starting a client for each would dominate the load."""

    def __init__(self, mariadb):
        self.name = mariadb.name
        # It ends when its input is closed, so it cannot outlive the driver.
        self.client = subprocess.Popen(
            ["mariadb", f"--defaults-file={mariadb.configuration}", "--batch", "--skip-column-names", "--unbuffered"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stdin.close()
        self.client.wait()
        self.client.stdout.close()

    def row(self, select):
        """Returns the only row of a SELECT as text."""
        self.client.stdin.write(select + ";\n")
        line = self.client.stdout.readline()
        if not line:
            raise Failure(f"the connection to {self.name} was lost during: {select}")
        return line.rstrip("\n")

    def do(self, statement):
        """Executes a statement without a result; waits for its end."""
        self.row(f"{statement}; SELECT 'done'")


def shop(spec, scale):
    """Returns a data directory with the shop of workloads/mariadb, created once by a server that was stopped cleanly."""
    made = spec.cache / f"shop-{scale}"
    if made.exists():
        return made
    log(f"filling the shop at scale {scale}, once for this cache")
    with created(made) as temporary:
        with MariaDb("shop", spec.scratch / "s", temporary, innodb_buffer_pool_size="256M", innodb_doublewrite="OFF") as mariadb:
            server.run("fill", [MARIADB / "fill.sh", mariadb.folder, "--scale", scale, "--seed", 1], spec.scratch)
            # The primary will listen on the loopback interface, where any user of the machine could be
            # root without a password.
            mariadb.sql("DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host <> 'localhost'); "
                        "CREATE DATABASE lab; CREATE TABLE lab.beat (id INT PRIMARY KEY, at BIGINT NOT NULL) ENGINE=InnoDB; "
                        "INSERT INTO lab.beat VALUES (1, 0)")
    return made


def put(source, target):
    """Copies a data directory into an empty dataset."""
    shutil.copytree(source, target, dirs_exist_ok=True)
