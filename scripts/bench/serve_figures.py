"""Measures and prints the figures of 95-serve.sh.

usage: serve_figures.py     (in a scratch directory, as root; the environment is that of 95-serve.sh)
"""

import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import many_pools

SMOKE = os.environ.get("BENCH_SMOKE") == "1"
POOLS = int(os.environ.get("SERVE_POOLS", 2 if SMOKE else 10))
DATASETS = int(os.environ.get("SERVE_DATASETS", 50 if SMOKE else 1000))
SNAPSHOTS = int(os.environ.get("SERVE_SNAPSHOTS", 200 if SMOKE else 10000))
SCRAPES = 3 if SMOKE else 15
IDLE = 5 if SMOKE else 60
TIME_BAR, MEMORY_BAR, CPU_BAR = 0.250, 64 << 20, 0.005
# A scrape after this time gets new readings.
PAUSE = 1.2
ROOT = Path.cwd()
# A /dev with the file that `zpool` needs; the exporters see no other device.
IN_NAMESPACE = """mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 && touch /dev/zfs \
&& exec "$@" """


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Exporter:
    """An exporter, and how long its scrapes take."""

    def __init__(self, name, command):
        self.name, self.port = name, free_port()
        line = [part.format(port=self.port, proc=ROOT / "proc") for part in command]
        path = f"{ROOT / 'bin'}:{os.environ['PATH']}"
        self.process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", IN_NAMESPACE, "sh", *line],
            env={**os.environ, "PATH": path},
            stdout=subprocess.DEVNULL,
            stderr=open(f"{name}.log", "w"),
        )
        self.seconds, self.body = [], b""

    def scrape(self):
        start = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            self.body = answer.read()
        return time.perf_counter() - start

    def first(self):
        end = time.monotonic() + 60
        while True:
            try:
                return self.scrape()
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    sys.exit(f"{self.name} does not answer: {Path(self.name + '.log').read_text()[-500:]}")
                time.sleep(0.1)

    def status(self, field):
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024

    def cpu(self):
        """CPU time of the process and of its finished children, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def samples(self):
        return sum(1 for line in self.body.splitlines() if line and not line.startswith(b"#"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def exporters():
    all_of_them = {"poolwright": [os.environ["POOLWRIGHT"], "serve", "--listen", "127.0.0.1:{port}", "--proc", "{proc}"]}
    if os.access(os.environ["ZFS_EXPORTER"], os.X_OK):
        all_of_them["zfs_exporter"] = [os.environ["ZFS_EXPORTER"], "--web.listen-address=127.0.0.1:{port}", "--deadline=60s"]
    if os.access(os.environ["NODE_EXPORTER"], os.X_OK):
        options = ["--collector.disable-defaults", "--collector.zfs", "--path.procfs={proc}"]
        all_of_them["node_exporter"] = [os.environ["NODE_EXPORTER"], "--web.listen-address=127.0.0.1:{port}", *options]
    return [Exporter(name, command) for name, command in all_of_them.items()]


def bench(**row):
    print("BENCH " + json.dumps(row))


def main():
    many_pools.make(ROOT, POOLS, DATASETS, SNAPSHOTS)
    print(f"{POOLS} pools, each with {DATASETS} datasets and {SNAPSHOTS} snapshots")
    running = exporters()
    try:
        firsts = {exporter.name: exporter.first() for exporter in running}
        before = {exporter.name: exporter.cpu() for exporter in running}
        # In turns, so that all see the same machine.
        for _ in range(SCRAPES):
            time.sleep(PAUSE)
            for exporter in running:
                exporter.seconds.append(exporter.scrape())
        for exporter in running:
            cpu = (exporter.cpu() - before[exporter.name]) / SCRAPES
            print(
                f"  {exporter.name}: first {firsts[exporter.name] * 1e3:.0f} ms, then median "
                f"{statistics.median(exporter.seconds) * 1e3:.0f} ms ({min(exporter.seconds) * 1e3:.0f} to "
                f"{max(exporter.seconds) * 1e3:.0f}), CPU {cpu * 1e3:.0f} ms a scrape with its children, "
                f"memory {exporter.status('VmHWM') / 2**20:.1f} MiB, {exporter.samples()} samples"
            )
        ours = running[0]
        if b'poolwright_source_up{source="kernel-status",pool="pool0"} 1' not in ours.body:
            sys.exit("a source is down: " + "\n".join(
                line.decode() for line in ours.body.splitlines() if line.startswith(b"poolwright_source_up")))
        start, used = time.monotonic(), ours.cpu()
        time.sleep(IDLE)
        idle = (ours.cpu() - used) / (time.monotonic() - start)
        report(running, firsts, idle)
    finally:
        for exporter in running:
            exporter.stop()


def report(running, firsts, idle):
    ours, theirs = running[0], {exporter.name: exporter for exporter in running[1:]}
    other = theirs.get("zfs_exporter")
    reference = statistics.median(other.seconds) * 1e3 if other else None
    median, bars = statistics.median(ours.seconds), not SMOKE
    bench(name="serve/scrape", value=round(median * 1e3, 1), unit="ms", reference=reference and round(reference, 1),
          ratio=reference and round(median * 1e3 / reference, 3), bar="<= 250" if bars else None,
          **{"pass": median <= TIME_BAR if bars else None},
          spread=[round(min(ours.seconds) * 1e3, 1), round(max(ours.seconds) * 1e3, 1)], first_ms=round(firsts[ours.name] * 1e3, 1))
    memory, limit = ours.status("VmHWM"), MEMORY_BAR / 2**20
    reference = other.status("VmHWM") / 2**20 if other else None
    bench(name="serve/memory", value=round(memory / 2**20, 1), unit="MiB", reference=reference and round(reference, 1),
          ratio=reference and round(memory / 2**20 / reference, 3), bar=f"<= {limit:.0f}" if bars else None,
          **{"pass": memory <= MEMORY_BAR if bars else None})
    bench(name="serve/idle CPU", value=round(idle * 100, 3), unit="%", reference=None, ratio=None, bar="<= 0.5",
          **{"pass": idle <= CPU_BAR})
    for exporter in running:
        bench(name=f"serve/samples {exporter.name}", value=exporter.samples(), unit="", reference=None, ratio=None, bar=None,
              **{"pass": None})


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
