#!/usr/bin/env python3
"""Records the databases of campaigns/five-reports.toml, and prints what `poolwright tune` recommends for each (docs/five-reports.md).

usage: scripts/lab/tune.py [--budget TIME] [--results DIR] [STUDY...]

  --budget    the budget of each `tune` (default: its own)
  --results   directory for the recordings, plans and reports (default: lab-results/five-reports)
  STUDY       only these studies; default: all

A study's phases run in directories of TMPDIR (default: /var/tmp), the last one with the recorder beside it; one with `cold = true` begins without
the files' pages in the page cache. `tune` gets the pool's device and ARC, and the first level of the factor `settings` as today's properties. It
examines the dataset that this level sets, or all datasets if it sets several.

Requires root, a release build, and `scripts/install.sh --for lab` and `scripts/lab/fetch.sh`.

Exit status: 0 done, 1 a program failed, 2 wrong usage.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGN = ROOT / "campaigns/five-reports.toml"
POOLWRIGHT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/poolwright"
# The recorder loads its programs and scans the directory.
RECORDER_STARTS_S = 2
KEEP_TODAY = 4


def main():
    campaign = tomllib.loads(CAMPAIGN.read_text())
    options = parsed([study["name"] for study in campaign["study"]])
    studies = [study for study in campaign["study"] if not options.studies or study["name"] in options.studies]
    options.results.mkdir(parents=True, exist_ok=True)
    for study in studies:
        with tempfile.TemporaryDirectory(prefix="poolwright-tune.", dir=os.environ.get("TMPDIR", "/var/tmp")) as scratch:
            Recording(campaign, study, Path(scratch), options).tune()


def parsed(names):
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--budget")
    parser.add_argument("--results", type=Path, default=ROOT / "lab-results/five-reports")
    parser.add_argument("studies", nargs="*")
    options = parser.parse_args()
    if unknown := set(options.studies) - set(names):
        parser.error(f"no study {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


class Recording:
    """A study of the campaign, its datasets as directories, and the files of its results."""

    def __init__(self, campaign, study, scratch, options):
        self.study, self.scratch, self.options = study, scratch, options
        self.pool = {**campaign["pool"], **study.get("pool", {})}
        self.parameters = {**campaign["scale"]["small"], **study["parameters"]}
        self.datasets = scratch / "db"
        for role in study["datasets"]:
            (self.datasets / role).mkdir(parents=True)
        (scratch / "files").mkdir()

    def tune(self):
        name, directory = self.study["name"], self.tuned_directory()
        trace, plan = (self.options.results / f"{name}.{suffix}" for suffix in ("parquet", "plan.json"))
        *before, recorded = self.study["phase"]
        for phase in before:
            self.run(phase)
        print(f"{name}: recording", flush=True)
        self.record(recorded, directory, trace)
        command = [POOLWRIGHT, "tune", directory, "--trace", trace, "--plan", plan, "--report", plan.with_suffix(".html"), "--force",
                   "--device", self.pool["device"], "--arc", self.pool["arc"], "--ashift", str(self.pool["ashift"])]
        command += [word for pair in self.today().items() for word in ("-o", "=".join(pair))]
        command += ["--budget", self.options.budget] if self.options.budget else []
        began = time.monotonic()
        status = subprocess.run(command, check=False).returncode
        if status not in (0, KEEP_TODAY):
            sys.exit(f"tune.py: tune of {name} failed with status {status}")
        print(f"{name}: tune took {time.monotonic() - began:.0f} s", flush=True)

    def levels_today(self):
        """The settings of today's level, by role."""
        return [(*path.split("."), value) for path, value in self.study["factor"][0]["levels"][0]["set"].items()]

    def tuned_directory(self):
        roles = {role for role, _, _ in self.levels_today()}
        return self.datasets / roles.pop() if len(roles) == 1 else self.datasets

    def today(self):
        """Today's properties of the tuned directory; the levels give all of its datasets the same ones."""
        levels = self.levels_today()
        of_datasets = {name: value for role, _, _ in levels for name, value in self.study["datasets"][role].items()}
        return of_datasets | {name: value for _, name, value in levels}

    def record(self, phase, directory, trace):
        recorder = subprocess.Popen([POOLWRIGHT, "record", "--dir", directory, "-o", trace, "--force"])
        try:
            time.sleep(RECORDER_STARTS_S)
            self.run(phase)
        finally:
            recorder.send_signal(signal.SIGINT)
            status = recorder.wait()
        if status != 0:
            sys.exit(f"tune.py: the recorder failed with status {status}")

    def run(self, phase):
        """Runs a phase of the driver, and prints its figures."""
        if phase.get("cold"):
            drop_pages(self.datasets)
        specification = {
            "protocol": 1, "phase": phase["name"], "parameters": self.parameters, "scratch": str(self.scratch / "files"),
            "paths": {role: str(self.datasets / role) for role in self.study["datasets"]},
            "cache": str(ROOT / "target/lab/cache"), "tools": str(ROOT / "target/lab"), "seed": 1, "engine_pid": None,
        }
        driver = [ROOT / "workloads/lab" / self.study["driver"], "run"]
        ended = subprocess.run(driver, input=json.dumps(specification), stdout=subprocess.PIPE, text=True, check=False)
        if ended.returncode != 0:
            sys.exit(f"tune.py: phase {phase['name']} of {self.study['name']} failed with status {ended.returncode}")
        for line in map(json.loads, ended.stdout.splitlines()):
            if "figure" in line:
                print("  {name} {value:.6g} {unit}".format(**line["figure"]), flush=True)


def drop_pages(directory):
    """Drops the pages of all files below a directory from the page cache."""
    for path in filter(Path.is_file, directory.rglob("*")):
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


if __name__ == "__main__":
    main()
