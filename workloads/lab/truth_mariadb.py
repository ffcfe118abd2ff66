"""The web shop of workloads/mariadb under sysbench; redo log and binary log in the dataset `log`."""

import os

import innodb_server
import truth_loads
from common import server
from common.driver import Failure
from innodb_server import MARIADB

check = innodb_server.check


def prepare(spec, folder):
    """Prepares the database; the server is stopped cleanly, and its logs are moved to the directory that `serving` uses."""
    data, log = folder / "data", folder / "log"
    with innodb_server.MariaDb("prepare", spec.scratch / "p", data, innodb_doublewrite="OFF", **_settings(spec, None)) as mariadb:
        server.run("fill", [MARIADB / "fill.sh", mariadb.folder, "--scale", f"{spec.get('size', 1.0):g}", "--seed", 1], spec.scratch)
    for name in data.glob("ib_logfile*"):
        name.rename(log / name.name)


def _settings(spec, log):
    """Returns the server's options; `log` is the directory of its logs, or None while it has no binary log."""
    settings = {"innodb_buffer_pool_size": spec.get("buffer_pool", "64M"), "innodb_log_file_size": spec.get("redo", "96M")}
    if log is None:
        return settings
    return {**settings, "innodb_log_group_home_dir": log, "log_bin": log / "mysql-bin", "binlog_format": "ROW",
            "sync_binlog": 1, "max_binlog_size": "64M"}


def serving(spec):
    """Runs the server on the datasets."""
    return innodb_server.MariaDb("mariadb", spec.scratch / "m", spec.path("data"), **_settings(spec, spec.path("log")))


class Clients(truth_loads.ProgramClients):
    """sysbench, which records each transaction."""

    SCRIPT = "oltp.lua"

    def server(self):
        socket = self.spec.scratch / "m" / "mariadb.sock"
        return server.Server("sysbench", [
            "sysbench", MARIADB / self.SCRIPT, "--db-driver=mysql", f"--mysql-socket={socket}", "--mysql-user=root",
            "--mysql-db=shop", f"--threads={self.spec.get('clients', 4)}", f"--time={round(self.seconds + 0.5)}", "--events=0",
            f"--seed={self.spec.seed}", f"--rand-seed={self.spec.seed + 1}", "--rand-type=pareto", f"--log={self.folder / 'log'}",
            "run",
        ], self.spec.scratch, env={**os.environ, "LUA_PATH": f"{MARIADB}/?.lua;;"})

    def finish(self):
        super().finish()
        # sysbench exits with status 0 even if a thread fails.
        if "FATAL" in self.program.log_path.read_text(errors="replace"):
            raise Failure(f"sysbench failed: {self.program.last_lines(6)}")
