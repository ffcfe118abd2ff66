"""A full comparison of one workload (truth.sh, which has the help)."""

import argparse
import contextlib
import csv
import io
import json
import os
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import compare
import pool
from campaign import Workload, canonical

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "poolwright"
CAMPAIGN = ROOT / "campaigns" / "truth.toml"
MEMORY = Path("/dev/shm")
# Free memory in bytes that pools in memory require.
MEMORY_FREE = 12 << 30
# The load runs this much longer than the recording, because the recorder takes time to start.
RECORDER_S = 4.0
# POOLWRIGHT_HOME is the directory in which the lab finds its drivers.
HOME = {**os.environ, "POOLWRIGHT_HOME": str(ROOT)}
# Roles of files in the dataset `log`, if a workload has that dataset.
LOG_ROLES = ("wal", "binlog")
# Columns of /proc/stat that count busy time: all except idle, iowait, and guest times, which user and nice include.
BUSY = (0, 1, 2, 5, 6, 7)
# How many errors of trials a message has, and the largest number of characters of each.
MAX_CAUSES, MAX_CAUSE = 3, 200
METRICS = {"rate": "work_per_s", "mean_ns": "work_mean", "p99_ns": "work_p99", "space": "allocated.data",
           "space_all": "allocated"}


def main():
    options = arguments(sys.argv[1:])
    workload = Workload(CAMPAIGN, options.workload, options.scale)
    if options.settings:
        workload.keep(list(workload.settings)[:options.settings])
    run = Run(workload, options)
    run.record()
    run.tune()
    if options.plan_only:
        say(f"{run.out}/plan{run.kept}.json: {run.recommended}")
        return
    run.add_other_devices()
    found = run.compared()
    print(compare.table(workload.title, found))
    say(f"{run.out}/truth{run.kept}.md, truth{run.kept}.json; the trials are in {run.database}")


def arguments(words):
    """Parses the options of a workload's run."""
    parser = argparse.ArgumentParser(prog="truth.sh", add_help=False)
    parser.add_argument("workload")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--within", type=float, default=100 * compare.WITHIN)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--warm", type=float)
    parser.add_argument("--size", type=float)
    parser.add_argument("--scale", default="full")
    parser.add_argument("--record", type=int, default=20)
    parser.add_argument("--device")
    parser.add_argument("--record-on", choices=("host", "pool"), default="host")
    parser.add_argument("--settings", type=int)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--replay-options", default="")
    parser.add_argument("--tune-options", default="")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plan-only", action="store_true")
    parser.add_argument("--predict-only", action="store_true")
    parser.set_defaults(keep_disturbed=False)
    return parser.parse_args(words)


def say(text):
    print(text, file=sys.stderr, flush=True)


def poolwright(*arguments, good=(0,), **how):
    """Runs poolwright and returns its standard output; exits if its status is not in `good`."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False, **how)
    if done.returncode not in good:
        sys.exit(f"truth.sh: poolwright {arguments[0]} exited with status {done.returncode}")
    return done.stdout


@contextlib.contextmanager
def watched(found):
    """Stores in `found` the CPU use, in per cent, of processes other than this one's children during the block."""
    before = _cpu_seconds()
    yield
    busy, total, own = (now - then for now, then in zip(_cpu_seconds(), before))
    found[compare.OTHERS] = max(0.0, 100 * (busy - own) / total) if total else 0.0


def _cpu_seconds():
    """CPU seconds of the machine (busy, total), and of the children that have exited."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    children, second = resource.getrusage(resource.RUSAGE_CHILDREN), os.sysconf("SC_CLK_TCK")
    return sum(ticks[n] for n in BUSY) / second, sum(ticks) / second, children.ru_utime + children.ru_stime


class Run:
    """The steps for one workload. A step whose result is in `out` is not repeated."""

    def __init__(self, workload, options):
        self.workload, self.options = workload, options
        self.out = (options.out or ROOT / "lab-results" / "truth" / workload.name).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        # All devices share one recording; the other files are kept for each device.
        self.kept = "-" + re.sub("[^A-Za-z0-9]+", "-", options.device) if options.device else ""
        if options.device:
            workload.on_device(options.device)
        self.name = f"truth-{workload.name}{self.kept}"
        self.trace, self.database = self.out / "t.parquet", self.out / f"truth{self.kept}.db"
        self.campaign = self.out / f"{self.name}.toml"
        self.driver = ROOT / "workloads" / "lab" / workload.study["driver"]
        self.parameters = {name: value for name, value in (
            ("seconds", options.seconds), ("warm_s", options.warm), ("size", options.size)) if value is not None}
        self.recording, self.plan, self.recommended = None, None, None

    def compared(self):
        """Predicts and measures every setting, and writes the comparison."""
        workload = self.workload
        predicted = compare.steadied([
            {name: self.predicted(name, properties, number) for name, properties in workload.settings.items()}
            for number in range(self.options.rounds)], workload.today)
        truth = self.truth()
        if workload.today not in truth:
            sys.exit(f"truth.sh: {self.without_trials([workload.today])}")
        found = compare.compare(truth, predicted, workload.today, self.recommended, self.options.within / 100,
                                self.plan, self.options.keep_disturbed)
        found = {"workload": workload.name, "title": workload.title, "parameters": {**workload.parameters, **self.parameters},
                 "pool": workload.pool, "recorded_on": self.recording.get("recorded_on", "host"),
                 "replay_options": self.options.replay_options, **found,
                 "recording": self.recording, "plan": self.plan and evidence_of(self.plan), "blocks": truth}
        (self.out / f"truth{self.kept}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        (self.out / f"truth{self.kept}.md").write_text(compare.table(workload.title, found))
        return found

    # ---- record ----

    def record(self):
        """Records the prepared database under its load."""
        self.recording = self._recorded()

    def _recorded(self):
        """The figures of the driver and of the recorder."""
        kept = self.out / "recording.json"
        if kept.exists() and self.trace.exists():
            earlier = json.loads(kept.read_text())
            if earlier.get("recorded_on", "host") == self.options.record_on:
                return earlier
        self._check()
        database = self.out / "db"
        shutil.rmtree(database, ignore_errors=True)
        for role in self.workload.roles:
            (database / role).mkdir(parents=True)
        say(f"record: {self.workload.title}")
        with tempfile.TemporaryDirectory(prefix="truth-") as scratch:
            # Servers that change their user need access.
            os.chmod(scratch, 0o755)
            with self._storage(database):
                self._drive("place", database, scratch)
                figures, recording = self._drive("load", database, scratch, record=True)
        found = {"figures": figures, "recorder": recording, "recorded_on": self.options.record_on}
        kept.write_text(json.dumps(found, indent=1) + "\n")
        return found

    def _storage(self, database):
        """A context in which the database is on this host's file system, or on a mounted pool with today's settings."""
        if self.options.record_on == "host":
            return contextlib.nullcontext()
        today = self.workload.settings[self.workload.today]
        datasets = {role: {**properties, **(today if role == "data" else {})}
                    for role, properties in self.workload.study["datasets"].items()}
        return pool.mounted(PROGRAM, database, datasets, self.workload.pool, self.options.scratch or scratch_folder())

    def _check(self):
        """Exits if the driver lacks a requirement of this workload."""
        done = subprocess.run([self.driver, "--check"], input=json.dumps(self.workload.parameters), capture_output=True, text=True,
                              check=False)
        if done.returncode:
            sys.exit(f"truth.sh: {self.workload.name} cannot run here:\n{(done.stdout + done.stderr).rstrip()}")

    def _drive(self, phase, database, scratch, record=False):
        """Runs one phase of the driver on directories of this host. With `record`, starts the recorder at the start of the measured
        window."""
        # The recording has a fixed length, so the load has no limit of operations.
        parameters = {**self.workload.parameters, **self.parameters, "seconds": self.options.record + RECORDER_S,
                      "operations_per_s": 0}
        spec = {"protocol": 1, "phase": phase, "parameters": parameters, "scratch": scratch,
                "paths": {role: str(database / role) for role in self.workload.roles},
                "cache": str(ROOT / "target" / "lab" / "cache" / self.name), "tools": str(ROOT / "target" / "lab"), "seed": 1}
        figures, recorder = {}, None
        with open(self.out / "driver.log", "a", encoding="utf-8") as log, subprocess.Popen(
                [self.driver, "run"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True) as driver:
            driver.stdin.write(json.dumps(spec))
            driver.stdin.close()
            for line in map(json.loads, driver.stdout):
                if line.get("measure") == "start" and record:
                    recorder = subprocess.Popen([PROGRAM, "record", "--force", "--dir", database, "--for", f"{self.options.record}s",
                                                 "-o", self.trace, "--json"], stdout=subprocess.PIPE, text=True)
                if "figure" in line:
                    figures[line["figure"]["name"]] = line["figure"]["value"]
                if "log" in line:
                    say(f"  {line['log']}")
        summary = recorder.communicate()[0] if recorder else "{}"
        if driver.returncode or (recorder and recorder.returncode):
            self.trace.unlink(missing_ok=True)
            last = "".join((self.out / "driver.log").read_text(errors="replace").splitlines(keepends=True)[-3:])
            sys.exit(f"truth.sh: the load or its recording failed\n{last}")
        return figures, json.loads(summary)

    # ---- predict ----

    def _device(self):
        return ["--device", self.workload.pool["device"], "--arc", self.workload.pool["arc"],
                "--ashift", self.workload.pool["ashift"]]

    def tune(self):
        """Makes the plan for the recording, and adds the recommended setting if the campaign does not have it."""
        self.plan = self._planned()
        self.recommended = self.workload.name_of(recommended_of(self.plan, self.out / "db"))

    def add_other_devices(self):
        """Adds the settings that plans for other devices recommend: each should be the best on its own device."""
        for plan in sorted(self.out.glob("plan-*.json")) if self.options.device else []:
            self.workload.name_of(recommended_of(json.loads(plan.read_text()), self.out / "db"))

    def _planned(self):
        kept = self.out / f"plan{self.kept}.json"
        if not kept.exists() or kept.stat().st_mtime < self.trace.stat().st_mtime:
            say("tune")
            today = [word for key, value in self.workload.settings[self.workload.today].items() for word in ("-o", f"{key}={value}")]
            poolwright("tune", self.out / "db", "--trace", self.trace, *self._device(), *today, "--json", "--force",
                       "--plan", kept, "--report", self.out / f"plan{self.kept}.html", *shlex.split(self.options.tune_options), good=(0, 4))
        return json.loads(kept.read_text())

    def _roles(self):
        return sorted(json.loads(poolwright("trace", "show", self.trace, "--json"))["roles"])

    def _log_roles(self):
        """The recorded roles whose files are in the dataset `log`."""
        if "log" not in self.workload.roles:
            return []
        return [role for role in LOG_ROLES if role in self._roles()]

    def predicted(self, name, properties, number):
        """The metrics of a replay of the whole application with a setting. Results are kept by setting, options and round."""
        words = ["replay", self.trace, *self._device(), "--json"]
        logs = self._log_roles()
        # Set the properties for each role, because a property of all roles would also apply to the logs' dataset.
        for role in [role for role in self._roles() if role not in logs]:
            for key, value in properties.items():
                words += ["-o", f"{role}:{key}={value}"]
        for role in logs:
            for key, value in self.workload.study["datasets"]["log"].items():
                words += ["-o", f"{role}:{key}={value}"]
        words += shlex.split(self.options.replay_options)
        label = " ".join(map(str, words[2:])) + (f" (round {number + 1})" if number else "")
        kept = self.out / "predictions.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if known.get("trace") != self.trace.stat().st_mtime_ns:
            known = {"trace": self.trace.stat().st_mtime_ns}
        if label not in known:
            say(f"predict, round {number + 1}: {name}")
            others = {}
            with watched(others):
                replayed = poolwright(*words, good=(0, 1))
            if not replayed:
                # The replay failed, for example because the setting fills the scratch directory. The setting has no prediction.
                return {}
            known[label] = {**json.loads(replayed), **others}
            kept.write_text(json.dumps(known) + "\n")
        return prediction(known[label], "log" in self.workload.roles)

    # ---- truth ----

    def truth(self):
        """Runs the campaign; returns setting → block → metric → value, in the order of the campaign."""
        self.campaign.write_text(self.workload.text(self.name, self.parameters))
        options, within = self.options, self.options.within / 100
        if options.predict_only:
            return self._trials()
        for blocks in range(options.blocks, max(options.blocks, options.most) + 1):
            say(f"truth: {len(self.workload.settings)} settings, {blocks} blocks")
            # Status 1: a trial failed. The lab reports it, and its block lacks that setting.
            poolwright("lab", "run", self.campaign, "--scale", options.scale, "--seed", options.seed, "--repeats", blocks, "--scratch",
                       options.scratch or scratch_folder(), "--json", "--results", self.database, good=(0, 1), env=HOME)
            trials = self._trials()
            today = trials.get(self.workload.today, {})
            if all(compare.is_known(b, today, within) for b in trials.values()):
                break
        return trials

    def _trials(self):
        found = blocks_of(poolwright("lab", "report", self.campaign, "--csv", "--results", self.database, env=HOME))
        return {name: found[name] for name in self.workload.settings if name in found}

    def without_trials(self, settings):
        """The message for settings of which no trial succeeded, with the errors of their trials. A caller may delete the database."""
        report = json.loads(poolwright("lab", "report", self.campaign, "--json", "--results", self.database, env=HOME))
        why = causes(report["failed"], settings)
        return f"no trial of {', '.join(settings)} succeeded{f' ({why})' if why else ''}; see {self.database}"


def scratch_folder():
    """/dev/shm if enough memory is free, as in `replay` and `tune`; otherwise the temporary directory."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_FREE:
        return MEMORY
    return Path(tempfile.gettempdir())


def recommended_of(plan, database):
    """The properties that the plan recommends for the dataset `data`; empty if it recommends none."""
    data = (database / "data").resolve()

    def is_of_data(role):
        # A plan names the innermost directory that contains all files of a role.
        place = Path(role["place"]["mountpoint"])
        return role["role"] not in LOG_ROLES and (place == database.resolve() or place.is_relative_to(data))

    roles = [role for role in plan["roles"] if is_of_data(role)]
    # Roles of one dataset have the same recommendation; the largest role is first.
    main_role = next((r for r in roles if r["role"] == "data"), roles[0] if roles else None)
    return canonical(main_role["recommended"]) if main_role else {}


def evidence_of(plan):
    """The parts of the plan that the comparison keeps."""
    return {"verdict": plan["verdict"], "why": plan["why"], "gain": plan["gain"], "warnings": plan["warnings"],
            "roles": [{key: r.get(key) for key in ("role", "path", "place", "current", "recommended", "together_with", "gain", "evidence")}
                      for r in plan["roles"]]}


def prediction(replayed, separate_log):
    """The metrics of compare.py from `replay --json`: medians over its trials."""
    trials = replayed.get("runs", [replayed])
    if not trials:
        return {}
    found = {name: value for name, of in (
        ("rate", lambda t: t.get("work_rate") or t["ops_per_second"]),
        ("written", lambda t: t["vdev"]["write_bytes"] / t["ops"]),
        ("read", lambda t: t["vdev"]["read_bytes"] / t["ops"]),
        ("mean_ns", lambda t: t["mean_latency_ns"]),
        ("space", lambda t: sum(size for role, size in t["allocated_by_role"].items()
                                if not (separate_log and role in LOG_ROLES))),
        ("space_all", lambda t: t["allocated_bytes"]),
    ) if (value := statistics.median(of(t) for t in trials)) is not None}
    if all("application_cpu_seconds" in t for t in trials):
        found["engine_cpu"] = statistics.median((t["cpu_seconds"] - t["application_cpu_seconds"]) / t["ops"] for t in trials)
    return {**found, compare.OTHERS: replayed[compare.OTHERS]} if compare.OTHERS in replayed else found


def blocks_of(text):
    """Setting → block → metric → value from `lab report --csv`."""
    raw = {}
    for row in csv.DictReader(io.StringIO(text)):
        if row["phase"] == "load":
            raw.setdefault(row["setting"], {}).setdefault(int(row["block"]), {})[row["measure"]] = float(row["value"])
    return {setting: {block: _metrics(measures) for block, measures in sorted(blocks.items())}
            for setting, blocks in raw.items()}


def causes(failed, settings):
    """A text with the errors of these settings' trials, from the list `failed` of `lab report --json`. The same error is named once, and at
    most MAX_CAUSES are; empty without errors."""
    found = {}
    for trial in failed:
        setting = trial["case"]["setting"]
        if setting in settings:
            why = textwrap.shorten(trial["why"], MAX_CAUSE, placeholder=" …")
            found.setdefault(why, {})[setting] = None
    named = [f"{', '.join(of)}: {why}" for why, of in list(found.items())[:MAX_CAUSES]]
    more = len(found) - len(named)
    return "; ".join(named + [f"and {more} more"] * bool(more))


def _metrics(measures):
    found = {name: measures[measure] for name, measure in METRICS.items() if measure in measures}
    # The counters cover the time between the driver's start and end lines, which can be slightly longer than the clients' window.
    work = measures["work_per_s"] * measures["wall_s"]
    for name, measure in (("written", "vdev_write_bytes"), ("read", "vdev_read_bytes"), ("engine_cpu", "engine_s")):
        if measure in measures:
            found[name] = measures[measure] / work
    own = [measures.get(name) for name in ("user_s", "system_s", "engine_s")]
    if "host_cpu" in measures and None not in own:
        found[compare.OTHERS] = max(0.0, measures["host_cpu"] - 100 * sum(own) / measures["wall_s"] / os.cpu_count())
    return found


if __name__ == "__main__":
    main()
