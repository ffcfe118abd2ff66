#!/usr/bin/env python3
"""Lets a real Prometheus and a real Alertmanager watch mounted pools under load, injects six faults, and checks that exactly their
alerts arrive at Alertmanager and that they resolve. The same Prometheus scrapes the recorded output for kernel pools in bad states
(crates/monitor/tests/golden), whose alerts must arrive, too.

usage: alerts_e2e.py [--program FILE] [--tools DIR] [--only FAULT]

Needs /dev/fuse. --tools is a directory with the unpacked packages prometheus and prometheus-alertmanager; without it, the installed
programs run. The rules are the shipped ones; only their times are shortened ("for" to 3 s, windows to 30 s), because a fault would
otherwise need to last an hour.

Exit status: 0 all as expected, 1 not, 2 wrong usage.
"""

import argparse
import functools
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "crates" / "monitor" / "tests" / "golden"
# Whole outputs, and those parts of outputs that alert rules read.
RECORDED_OUTPUTS = sorted([*RECORDED.glob("*.prom"), *RECORDED.glob("*.state")])
# An alert that the recorded output of a state must cause.
RECORDED_ALERTS = {
    "openzfs-2.1-degraded": "PoolDegraded",
    "openzfs-2.3.2-data-errors": "PoolDataErrors",
    "openzfs-2.3.2-degraded": "PoolDegraded",
    "openzfs-2.3.2-faulted": "VdevFault",
    "openzfs-2.3.2-full": "PoolFull",
    "openzfs-2.3.2-scrub-canceled": "ScrubCanceled",
    "openzfs-2.3.2-scrub-paused": "ScrubPaused",
    "openzfs-2.3.2-suspended": "PoolSuspended",
    "openzfs-2.3.2-unavailable": "VdevFault",
}
RULES = ROOT / "packaging" / "prometheus" / "poolwright.rules.yml"
# Seconds that an alert may take to arrive or to resolve on a busy machine.
PATIENCE = 180
# Seconds for which nothing else may fire.
QUIET = 8
MIB = 1 << 20


class Watched:
    """Pools, the exporter, Prometheus and Alertmanager, in a directory that is removed at the end."""

    def __init__(self, program, tools):
        self.dir = Path(tempfile.mkdtemp(prefix="poolwright-alerts-"))
        self.program, self.tools = program, tools
        self.env = {**os.environ, "POOLWRIGHT_STATE_DIR": str(self.dir / "state"), "POOLWRIGHT_RUNTIME_DIR": str(self.dir / "run")}
        self.processes, self.owners = [], {}
        self.load = threading.Event()

    def poolwright(self, line):
        done = subprocess.run([self.program, *line.split()], cwd=self.dir, env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(f"poolwright {line}: {done.stderr.strip()}")
        return done.stdout

    def scrub(self, pool):
        """Scrubs a pool; the exit status is 1 if it has errors."""
        subprocess.run([self.program, "pool", "scrub", "-w", pool], cwd=self.dir, env=self.env, timeout=PATIENCE, check=False)

    def mount(self, pool):
        (self.dir / f"m-{pool}").mkdir(exist_ok=True)
        answer = self.poolwright(f"mount {pool} m-{pool} --background --arc 64M --json")
        self.owners[pool] = json.loads(answer)["pid"]

    def unmount(self, pool):
        command = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
        wait(f"{pool} can be unmounted", lambda: subprocess.run([*command, self.dir / f"m-{pool}"], stderr=subprocess.DEVNULL).returncode == 0)
        wait(f"the owner of {pool} ends", lambda: not Path(f"/proc/{self.owners[pool]}").exists())

    def start(self, *command, **options):
        log = (self.dir / f"{len(self.processes)}.log").open("w")
        process = subprocess.Popen(command, cwd=self.dir, env=self.env, stderr=log, **options)
        self.processes.append(process)
        return process

    def tool(self, name):
        return str(self.tools / "usr" / "bin" / name) if self.tools else shutil.which(name) or sys.exit(f"{name} is not installed")

    def own_share(self):
        """A prefix with which an unpacked program finds its files in /usr/share, in a mount namespace.

        The namespace begins with copies of all mounts. A copy keeps a pool open after its unmount, so that they are unmounted there first.
        """
        if not self.tools:
            return []
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        mount = f"umount -a -t fuse.poolwright; mount --bind '{self.tools}/usr/share' /usr/share && exec \"$@\""
        return ["unshare", *user, "--mount", "--propagation", "slave", "sh", "-c", mount, "sh"]

    def start_programs(self):
        """Starts the exporter, Alertmanager and Prometheus."""
        self.alertmanager, self.prometheus = free_port(), free_port()
        exporter = self.start(self.program, "serve", "--listen", "127.0.0.1:0", "--timeout", "2s", "--plan", "plan.json",
                              stdout=subprocess.PIPE, text=True)
        self.exporter = exporter.stdout.readline().strip().removeprefix("http://").removesuffix("/metrics")
        (self.dir / "alertmanager.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
        self.start(*self.own_share(), self.tool("prometheus-alertmanager"), "--config.file=alertmanager.yml",
                   "--storage.path=alertmanager", f"--web.listen-address=127.0.0.1:{self.alertmanager}", "--cluster.listen-address=",
                   stdout=subprocess.DEVNULL)
        (self.dir / "rules.yml").write_text(shortened(RULES.read_text()))
        (self.dir / "prometheus.yml").write_text(
            "global: {scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n"
            f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{self.alertmanager}']}}]}}]}}\n"
            f"scrape_configs: [{{job_name: poolwright, static_configs: [{{targets: ['{self.exporter}']}}]}}{self.recorded_jobs()}]\n")
        self.start(self.tool("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                   f"--web.listen-address=127.0.0.1:{self.prometheus}", "--rules.alert.resend-delay=2s", stdout=subprocess.DEVNULL)
        wait("Prometheus scrapes", lambda: self.query("up == 1"))
        wait("Alertmanager answers", lambda: self.alerts() is not None)

    def recorded_jobs(self):
        """Serves the recorded outputs; the configuration of a job for each."""
        handler = functools.partial(RecordedOutput, directory=RECORDED)
        self.recorded = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.recorded.serve_forever, daemon=True).start()
        target = f"static_configs: [{{targets: ['127.0.0.1:{self.recorded.server_port}']}}]"
        return "".join(f", {{job_name: {path.stem}, metrics_path: /{path.name}, {target}}}" for path in RECORDED_OUTPUTS)

    def query(self, expression):
        url = f"http://127.0.0.1:{self.prometheus}/api/v1/query?query=" + urllib.request.quote(expression)
        return get(url)["data"]["result"]

    def alerts(self):
        """The names of the alerts that Alertmanager has from the exporter."""
        return {name for job, name in self.alerts_by_job() if job == "poolwright"}

    def alerts_by_job(self):
        """The job and the name of each alert that Alertmanager has."""
        return {(labels.get("job", "poolwright"), labels["alertname"]) for labels in labels_of_alerts(self.alertmanager)}

    def exporters_alerts(self):
        """The names of the alerts that the exporter itself has."""
        return {alert["name"] for alert in get(f"http://{self.exporter}/api/v1/alerts")["alerts"]}

    def keep_writing(self):
        """A load on the pool tank until the end."""
        path = self.dir / "m-tank" / "work" / "load"
        while not self.load.wait(0.2):
            try:
                with path.open("wb") as file:
                    file.write(os.urandom(MIB))
                    os.fsync(file.fileno())
            except OSError:
                pass  # the pool is not mounted, for a moment

    def stop(self):
        self.load.set()
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        for pool, pid in self.owners.items():
            subprocess.run(["umount", "-l", self.dir / f"m-{pool}"], stderr=subprocess.DEVNULL)
            try:
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)


class RecordedOutput(http.server.SimpleHTTPRequestHandler):
    """Serves files as an exporter would."""

    extensions_map = dict.fromkeys([".prom", ".state"], "text/plain; version=0.0.4") | {"": "text/plain"}

    def log_message(self, *_):
        pass


def shortened(rules):
    """The rules with short times."""
    rules = re.sub(r"^(\s+for:) .*$", r"\1 3s", rules, flags=re.MULTILINE)
    return re.sub(r"\[\d+[mh]\]", "[30s]", rules)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return json.load(answer)


def labels_of_alerts(port):
    alerts = get(f"http://127.0.0.1:{port}/api/v2/alerts?active=true")
    return [alert["labels"] for alert in alerts]


def wait(what, done, missing=lambda: ""):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if done():
                return
        except OSError:
            pass  # a program has not started yet
        if time.monotonic() > end:
            raise RuntimeError(f"timed out waiting until {what} {missing()}")
        time.sleep(0.5)


def write_plan(path, directory):
    """The documented example, made now, for one directory, with a promise of its space."""
    plan = json.loads((ROOT / "docs" / "examples" / "plan.json").read_text())
    role = plan["roles"][0]
    trial = next(trial for trial in role["evidence"] if trial["outcome"] == "recommended")
    trial["metrics"]["space_ratio"] = {"median": 3.0, "low": 2.5, "high": 3.5}
    plan["created"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = json.dumps({**plan, "roles": [{key: value for key, value in role.items() if key != "io"}]})
    path.write_text(text.replace(role["path"], str(directory)))
    return role["recommended"]


def vdev_error(w):
    """A file of a mirror is removed; the pool is made again."""
    (w.dir / "a.img").unlink()
    yield {"PoolDegraded", "PoolFileFault", "VdevDegraded", "VdevFault"}
    # The rules of the exporter itself have their full times; this one has none.
    wait("the exporter itself has the alert", lambda: "PoolFileFault" in w.exporters_alerts(), w.exporters_alerts)
    w.unmount("tank")
    w.poolwright("pool import tank b.img")
    w.poolwright("pool destroy tank")
    (w.dir / "b.img").unlink()
    make_tank(w)
    wait("the exporter itself has no alert", lambda: not w.exporters_alerts(), w.exporters_alerts)


def full_pool(w):
    """A pool becomes 82 % full, and is emptied. Of a smaller pool, the reserved space would be more than 18 %."""
    path = w.dir / "m-solo" / "fill"
    with path.open("wb") as file:
        while True:
            file.write(os.urandom(8 * MIB))
            os.fsync(file.fileno())
            pool = json.loads(w.poolwright("pool list solo --json"))["pools"][0]
            if pool["allocated"] / pool["size"] > 0.82:
                break
    yield {"PoolNearlyFull"}
    path.unlink()


def property_drift(w):
    """A property that the plan recommends is changed, and set again."""
    w.poolwright("dataset set compression=off tank")
    yield {"PlanPropertyDrifted"}
    w.poolwright(f"dataset set compression={w.planned['compression']} tank")


def promise_missed(w):
    """Data that does not compress takes more space than promised, and is removed."""
    path = w.dir / "m-tank" / "data" / "random"
    path.write_bytes(os.urandom(64 * MIB))
    yield {"PlanSpaceNotKept"}
    path.unlink()


def scrub_errors(w):
    """A scrub finds a damaged block without a second copy, and later finds it intact."""
    content = os.urandom(16 * MIB)
    path = w.dir / "m-solo" / "precious"
    with path.open("wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    image = w.dir / "solo.img"
    offset = find(image, content[:4096])
    write_at(image, offset, bytes(4096))
    w.scrub("solo")
    yield {"PoolDataErrors", "ScanErrors", "VdevChecksumErrors"}
    write_at(image, offset, content[:4096])
    # A block that was damaged is forgotten after a scrub without errors.
    w.scrub("solo")
    w.scrub("solo")


def find(image, wanted):
    """The offset of a page in a file."""
    with image.open("rb") as file:
        offset = 0
        while block := file.read(MIB):
            at = block.find(wanted)
            if at >= 0:
                return offset + at
            offset += len(block)
    raise RuntimeError("the file's content is not in the image")


def write_at(path, offset, data):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def hung_source(w):
    """The process that has a pool open hangs, and goes on."""
    os.kill(w.owners["solo"], signal.SIGSTOP)
    yield {"SourceDown"}
    os.kill(w.owners["solo"], signal.SIGCONT)


FAULTS = [vdev_error, full_pool, property_drift, promise_missed, scrub_errors, hung_source]


def inject(w, fault):
    """Injects a fault; its alerts must arrive, nothing else, and all must resolve."""
    steps = fault(w)
    began = time.monotonic()
    expected = next(steps)
    seen = set()

    def arrived():
        seen.update(w.alerts())
        return w.alerts() == expected

    wait(f"{sorted(expected)} fire (there were {sorted(seen)})", arrived)
    fired = time.monotonic()
    while time.monotonic() < fired + QUIET:
        seen.update(w.alerts())
        time.sleep(0.5)
    if seen - expected:
        raise RuntimeError(f"{fault.__name__}: also fired: {sorted(seen - expected)}")
    undone = time.monotonic()
    next(steps, None)
    wait(f"{sorted(expected)} resolve", lambda: not w.alerts())
    print(f"{fault.__name__}: {', '.join(sorted(expected))}: fired after {fired - began:.0f} s, "
          f"resolved after {time.monotonic() - undone:.0f} s", flush=True)


def check_recorded(w):
    """Waits until Prometheus has scraped each recorded output and Alertmanager has the alerts of its state."""
    count = len(RECORDED_OUTPUTS)
    wait("Prometheus scrapes the recorded outputs", lambda: len(w.query('up{job=~"openzfs.*"} == 1')) == count)
    wanted = set(RECORDED_ALERTS.items())
    wait(f"the alerts of {count} recorded states fire", lambda: wanted <= w.alerts_by_job(), lambda: wanted - w.alerts_by_job())
    print(f"recorded output of {count} states: {len(wanted)} alerts fire, as they should", flush=True)


def make_tank(w):
    """Creates and mounts the pool tank, with what the plan recommends."""
    w.poolwright("pool create tank mirror a.img:4G b.img:4G")
    w.mount("tank")
    for name, value in w.planned.items():
        w.poolwright(f"dataset set {name}={value} tank")
    (w.dir / "m-tank" / "work").mkdir()
    data = w.dir / "m-tank" / "data"
    data.mkdir()
    (data / "table").write_bytes(b"a row of a table, always the same\n" * 500_000)


def prepare(w):
    w.poolwright("pool create solo solo.img:2G")
    w.mount("solo")
    w.planned = write_plan(w.dir / "plan.json", w.dir / "m-tank" / "data")
    make_tank(w)
    threading.Thread(target=w.keep_writing, daemon=True).start()


def terminated(*_):
    """Ends the program, with its clean-up, which a second signal does not interrupt."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target" / "release" / "poolwright"))
    parser.add_argument("--tools", type=Path)
    parser.add_argument("--only", choices=[fault.__name__ for fault in FAULTS])
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, terminated)
    w = Watched(str(Path(args.program).resolve()), args.tools.resolve() if args.tools else None)
    try:
        prepare(w)
        w.start_programs()
        time.sleep(2 * QUIET)
        if w.alerts():
            raise RuntimeError(f"without a fault, there are {sorted(w.alerts())}")
        check_recorded(w)
        for fault in FAULTS:
            if args.only in (None, fault.__name__):
                inject(w, fault)
    except (OSError, RuntimeError) as why:
        print(f"alerts_e2e: {why}", file=sys.stderr)
        for log in w.dir.glob("*.log"):
            print(f"-- {log.name}\n{log.read_text()[-2000:]}", file=sys.stderr)
        return 1
    finally:
        w.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
