"""Measures and prints the figures of 65-new-pool.sh.

usage: new_pool_figures.py PLAN-SCRIPT     (in a scratch directory, as root; the environment is that of 65-new-pool.sh)
"""

import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

SMOKE = os.environ.get("BENCH_SMOKE") == "1"
SCALE = int(os.environ.get("SCALE", 2 if SMOKE else 40))
RUNS = int(os.environ.get("RUNS", 1 if SMOKE else 5))
BINDIR = Path(os.environ["BINDIR"])
ROOT = Path.cwd()
DB, SOCKET = ROOT / "data" / "db", ROOT / "socket"
USER = ["setpriv", "--reuid", "nobody", "--clear-groups", "--"]
# The part of the time with --online that a move with --standby may take.
BAR = 0.5


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def poolwright(*arguments):
    return run(os.environ["POOLWRIGHT"], *arguments, env={**os.environ, "POOLWRIGHT_STATE_DIR": str(ROOT / "state")})


def ctl(verb):
    options = f"-k {SOCKET} -c listen_addresses= -c max_wal_size=1GB"
    words = [*USER, BINDIR / "pg_ctl", "-D", DB, "-w", "-s", "-l", ROOT / "server.log"]
    words += [verb, "-m", "fast"] if verb == "stop" else [verb, "-o", options]
    return shlex.join(map(str, words))


def client(program, *arguments):
    return [*USER, str(BINDIR / program), "-h", str(SOCKET), "-U", "nobody", *arguments, "postgres"]


class Clients:
    """pgbench, started again when the server has ended it, and the longest time without a commit of a second client."""

    def __init__(self):
        self.over = threading.Event()
        self.threads = [threading.Thread(target=of) for of in (self.load, self.watch)]
        self.gap, self.commits = 0.0, 0

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        while self.commits < 50:
            time.sleep(0.05)
        self.gap = 0.0
        return self

    def __exit__(self, *_):
        time.sleep(1)
        self.over.set()
        for thread in self.threads:
            thread.join()

    def load(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        while not self.over.is_set():
            process = subprocess.Popen(client("pgbench", "-n", "-c", "4", "-R", "200", "-T", "3600"), **quiet)
            while process.poll() is None and not self.over.wait(0.05):
                pass
            process.kill()
            process.wait()

    def watch(self):
        last = time.perf_counter()
        while not self.over.is_set():
            command = client("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1")
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            session = subprocess.Popen(command, text=True, **pipes)
            try:
                while not self.over.is_set():
                    session.stdin.write("INSERT INTO beat VALUES (1) RETURNING n;\n")
                    session.stdin.flush()
                    if not session.stdout.readline():
                        break
                    now = time.perf_counter()
                    self.gap, last = max(self.gap, now - last), now
                    self.commits += 1
                    time.sleep(0.01)
            except BrokenPipeError:
                pass
            session.kill()
            session.wait()


def prepare(plan_script):
    ROOT.chmod(0o711)
    for pool in ("tank", "fast"):
        poolwright("pool", "create", pool, f"{ROOT}/{pool}.img:16G")
        (ROOT / pool).mkdir()
        poolwright("mount", pool, ROOT / pool, "--background", "--arc", "256M")
    poolwright("dataset", "create", "tank/data")
    for path in (ROOT / "data", SOCKET):
        path.mkdir()
    poolwright("mount", "tank/data", ROOT / "data")
    (ROOT / "server.log").touch()
    run("chown", "nobody", ROOT / "data", SOCKET, ROOT / "server.log")
    run(*USER, BINDIR / "initdb", "-D", DB, "-U", "nobody", "-A", "trust", "--no-locale", "-E", "UTF8", "-k")
    run("sh", "-c", ctl("start"))
    run(*client("psql", "-c", "CREATE TABLE beat (n int)"))
    run(*client("pgbench", "-i", "-q", "-s", str(SCALE)))
    template = run("python3", plan_script, ROOT / "data", "tank/data", "--database", "PostgreSQL")
    Path("plan.json").write_text(template.replace("@RECOMMENDED@", '"recordsize":"16K","compression":"zstd-1"'))
    return int(run(*client("psql", "-X", "-A", "-t", "-c", "SELECT sum(pg_database_size(oid)) FROM pg_database")))


def measure(command):
    with Clients() as clients:
        command()
    return clients.gap


def move(way):
    service = ["--stop", ctl("stop"), "--start", ctl("start")]
    gap = measure(lambda: poolwright("apply", "plan.json", "--new-pool", "fast", way, "--yes", *service))
    undone = json.loads(poolwright("undo", "plan.json", "--online", "--yes", "--json", *service))
    for snapshot in undone["outcome"]["kept_snapshots"]:
        poolwright("dataset", "destroy", snapshot)
    return gap


def restart():
    return measure(lambda: run("sh", "-c", f"{ctl('stop')} && {ctl('start')}"))


def end():
    subprocess.run(["sh", "-c", ctl("stop")], capture_output=True)
    for name in ("data", "fast", "tank"):
        for _ in range(100):
            if subprocess.run(["umount", str(ROOT / name)], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    gaps = {"a restart": [], "--online": [], "--standby": []}
    try:
        size = prepare(sys.argv[1])
        for _ in range(RUNS):
            gaps["a restart"].append(restart())
            for way in ("--online", "--standby"):
                gaps[way].append(move(way))
    finally:
        end()
    print(f"longest time without a commit, {size / 1e6:.0f} MB, {RUNS} runs:")
    for name, seconds in gaps.items():
        median = statistics.median(seconds)
        print(f"  {name:<10} median {median:.2f} s, {min(seconds):.2f} to {max(seconds):.2f}")
    value, reference = (statistics.median(gaps[way]) for way in ("--standby", "--online"))
    figure = {
        "name": "new-pool/longest time without a commit with --standby, of that with --online",
        "value": round(value, 3),
        "unit": "s",
        "reference": round(reference, 3),
        "ratio": round(value / reference, 3),
        "bar": None if SMOKE else f"<= {BAR}",
        "pass": None if SMOKE else value <= BAR * reference,
        "restart_s": round(statistics.median(gaps["a restart"]), 3),
        "runs": RUNS,
        "database_bytes": size,
    }
    print("BENCH", json.dumps(figure))


if __name__ == "__main__":
    main()
