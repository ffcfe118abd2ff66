"""PostgreSQL under pgbench's TPC-B, its log in the dataset `log`."""

import contextlib
import glob
import os
import subprocess
import time

import truth_loads
from common import driver, server
from common.driver import Failure

# pgbench's scale at size 1: 300 MB.
SCALE = 20
READY_S = 60
# PostgreSQL refuses to run as root, and its user cannot enter the lab's directory. In a user namespace, root has
# another user ID and the files of root belong to that user.
AS_USER = ["unshare", "--user", "--map-user=1", "--map-group=1"]


def programs():
    """Returns the directory of the newest installed server's programs, which Debian does not add to PATH, or None."""
    found = glob.glob("/usr/lib/postgresql/*/bin/postgres")
    return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4]))) if found else None


def check():
    """Yields a line for each missing requirement."""
    if programs() is None:
        yield "PostgreSQL is not installed: apt install postgresql, or scripts/install.sh --for lab"


def command(program, *arguments):
    """Returns the command of a program, run as a user that PostgreSQL accepts."""
    if programs() is None:
        raise Failure(next(check()))
    return [*(AS_USER if os.getuid() == 0 else []), os.path.join(programs(), program), *arguments]


def prepare(spec, folder):
    """Prepares pgbench's tables."""
    scale = max(1, round(SCALE * spec.get("size", 1.0)))
    with cluster(spec, folder):
        server.run("pgbench-init", command("pgbench", "-h", spec.scratch, "-U", "bench", "-i", "-q", "-s", str(scale), "postgres"),
                   spec.scratch)


@contextlib.contextmanager
def cluster(spec, folder):
    """Creates a cluster whose log has its own directory, and starts a server to fill it."""
    server.run("initdb", command("initdb", "-D", folder / "data", "-X", folder / "log", "-U", "bench", "-A", "trust", "-E", "UTF8",
                                 "--no-locale", "--no-sync"), spec.scratch)
    with running(spec, folder / "data", "fsync=off"):
        yield


@contextlib.contextmanager
def serving(spec):
    """Runs the server on the datasets."""
    link = spec.path("data") / "pg_wal"
    link.unlink()
    link.symlink_to(spec.path("log"))
    spec.path("data").chmod(0o700)
    with running(spec, spec.path("data")):
        version = subprocess.run(command("postgres", "--version"), capture_output=True, text=True, check=False)
        driver.version("postgresql", version.stdout.strip().split(" ")[2])
        yield


@contextlib.contextmanager
def running(spec, data, *settings):
    """Runs a server on this cluster, and stops it cleanly."""
    options = ["listen_addresses=", f"unix_socket_directories={spec.scratch}", "shared_buffers=64MB", "max_wal_size=256MB",
               "checkpoint_timeout=30s", "bgwriter_delay=50ms", *settings]
    words = [word for option in options for word in ("-c", option)]
    # SIGINT is its fast shutdown; unshare executes the server, so the signal reaches it.
    with server.Server("postgres", command("postgres", "-D", data, *words), spec.scratch, stop_signal=server.signal.SIGINT) as postgres:
        postgres.wait_ready(lambda: _answers(spec), READY_S)
        yield
        postgres.stop(READY_S)


def _answers(spec):
    return subprocess.run(command("psql", "-h", spec.scratch, "-U", "bench", "-d", "postgres", "-qAtc", "select 1"),
                          stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


class Clients(truth_loads.ProgramClients):
    """pgbench, which logs each transaction."""

    # A script that replaces TPC-B's.
    SCRIPT = None

    def server(self):
        # The log contains the time of day.
        self.to_monotonic = time.monotonic_ns() - time.time_ns()
        script = []
        if self.SCRIPT:
            path = self.folder / "script.sql"
            path.write_text(self.SCRIPT)
            script = ["-f", path]
        return server.Server("pgbench", command(
            "pgbench", "-h", self.spec.scratch, "-U", "bench", "-n", "-M", "prepared", *script, "-c", str(self.spec.get("clients", 4)),
            "-j", "2", "-T", str(round(self.seconds + 0.5)), f"--random-seed={self.spec.seed}", "-l",
            f"--log-prefix={self.folder / 'log'}", "postgres"), self.spec.scratch)

    def transactions(self):
        for path in self.logs():
            for line in path.read_text().splitlines():
                # Client, number, duration in microseconds, script, and the time of its end in seconds
                # and microseconds.
                _, _, took, _, second, micro = line.split()[:6]
                yield int(second) * truth_loads.NS_PER_S + int(micro) * 1000 + self.to_monotonic, int(took) * 1000
