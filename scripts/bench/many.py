"""Code that 80-many-files and 81-many-records share: serves a pool on a mount, times steps on it, prints the figures.

Each step is measured in wall time and in CPU time (of the server and this process together). On a shared machine, the CPU
time is the reliable one.
"""

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DIRTY_MIB = 512  # mount-serve's limit of dirty data
TICK = os.sysconf("SC_CLK_TCK")


class CannotMount(Exception):
    pass


class Served:
    """A pool of one file, mounted by mount-serve (crates/devtools)."""

    def __init__(self, scratch, *arguments):
        self.vdev, self.mnt, self.arguments = scratch / "vdev", scratch / "mnt", arguments
        self.cpu_before, self.peak_kib, self.process = 0.0, 0, None

    def start(self):
        target = Path(os.environ.get("CARGO_TARGET_DIR") or Path(os.environ["POOLWRIGHT_ROOT"]) / "target")
        self.mnt.mkdir(exist_ok=True)
        serve = [target / "release/mount-serve", self.vdev, self.mnt, *self.arguments]
        self.process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not self.process.stdout.readline().startswith("mounted"):
            raise CannotMount

    def stop(self):
        if self.process is None:
            return
        self.peak()
        self.cpu_before = self.cpu()
        subprocess.run(["umount", self.mnt], check=False)
        output, _ = self.process.communicate()
        status, self.process = self.process.returncode, None
        if status != 0:
            sys.exit(f"mount-serve exited with status {status}: {output}")

    def kill(self):
        """Kills the server even if the mount is busy; the pool is scratch data."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            subprocess.run(["umount", "--lazy", self.mnt], check=False)
            self.process = None

    def again(self):
        """Exports and imports the pool, which empties the caches of the kernel and the server."""
        self.stop()
        self.start()

    def cpu(self):
        """Seconds of CPU time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return self.cpu_before + (int(fields[11]) + int(fields[12])) / TICK

    def peak(self):
        """Peak resident memory in KiB since the last call."""
        proc = Path(f"/proc/{self.process.pid}")
        lines = proc.joinpath("status").read_text(encoding="ascii").splitlines()
        kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
        proc.joinpath("clear_refs").write_text("5", encoding="ascii")
        self.peak_kib = max(self.peak_kib, kib)
        return kib


class Steps:
    """Microseconds per item, in wall time and in CPU time, by the name of the step."""

    def __init__(self, served):
        self.served, self.took = served, {}

    def run(self, name, items, work, *arguments):
        cpu = lambda: self.served.cpu() + time.process_time()
        began, cpu_began = time.monotonic(), cpu()
        work(*arguments)
        spent, cpu_spent = time.monotonic() - began, cpu() - cpu_began
        each, cpu_each = (seconds * 1e6 / items for seconds in (spent, cpu_spent))
        self.took[name] = {"time": each, "cpu": cpu_each}
        print(f"  {items:>9} {name:<22} {each:9.2f} us each, {cpu_each:9.2f} of CPU time, "
              f"{self.served.peak() // 1024:>5} MiB", flush=True)


@contextlib.contextmanager
def scratch():
    """
    A directory for one run. It is not in memory: a pool prefers unused space, so its file grows to two or three times its
    contents.
    """
    folder = Path(tempfile.mkdtemp(prefix="poolwright-many.", dir=os.environ.get("BENCH_SCRATCH")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def measured(count, run, *arguments):
    """One run of `count` items on a new pool: its steps, and the server's peak memory in KiB."""
    print(f"{count} items")
    with scratch() as folder:
        served = Served(folder, *arguments)
        try:
            served.start()
            steps = Steps(served)
            extra = run(served, steps, count) or {}
            served.stop()
        finally:
            served.kill()
        return {"took": steps.took, "peak_kib": served.peak_kib, **extra}


def figure(name, value, unit, reference=None, bar=None, **more):
    ratio = value / reference if reference else None
    line = {"name": name, "value": round(value, 3), "unit": unit, "reference": reference and round(reference, 3),
            "ratio": ratio and round(ratio, 3), "bar": None, "pass": None, **more}
    if bar is not None:
        line["bar"] = f"<= {bar}"
        line["pass"] = (value if ratio is None else ratio) <= bar
    print("BENCH " + json.dumps(line))


def compare(area, what, few, many):
    """Prints the figures of each step: the median of the runs with all items relative to that of the runs with a tenth."""
    for step in many[0]["took"]:
        for kind, label in (("time", ""), ("cpu", ", CPU time")):
            value, reference = (statistics.median(run["took"][step][kind] for run in runs) for runs in (many, few))
            figure(f"{area}/{step}, {what} against a tenth{label}", value, "us each", reference, 2, rounds=len(many))


def rounds(count, times, run, *arguments):
    """Alternates runs with a tenth of the items and with all of them, `times` times."""
    few, many = [], []
    for _ in range(times):
        few.append(measured(count // 10, run, *arguments))
        many.append(measured(count, run, *arguments))
    return few, many


def main(bench, name):
    """Runs a bench. SIGTERM and Ctrl-C end it in order, so that the server is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        bench()
    except CannotMount:
        print(f"BENCH-SKIP {name}: cannot mount a FUSE file system here (requires /dev/fuse and root)")
    except KeyboardInterrupt:
        sys.exit(130)
