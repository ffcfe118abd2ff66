"""Tests the driver `truth` with each database server and little data. Takes half a minute; skips missing databases."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(LAB))

import truth_loads  # noqa: E402

PROGRAM = LAB / "truth"


def check(given=""):
    return subprocess.run([PROGRAM, "--check"], input=given, capture_output=True, text=True, check=False)


class Check(unittest.TestCase):
    def test_only_the_studys_workload_is_looked_for(self):
        done = check('{"workload": "sqlite"}')
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_an_unknown_workload_is_an_error(self):
        self.assertNotEqual(check('{"workload": "abacus"}').returncode, 0)

    def test_without_parameters_all_are_looked_for_and_each_line_is_said_once(self):
        lines = check().stdout.splitlines()
        self.assertEqual(len(lines), len(set(lines)))


class WithServer(unittest.TestCase):
    """Returns the results of the clients of a short load."""

    def figures(self, workload, **parameters):
        if missing := list(truth_loads.workload_named(workload).check()):
            self.skipTest("; ".join(missing))
        with tempfile.TemporaryDirectory() as folder:
            paths = {role: Path(folder) / role for role in ("data", "log")}
            for path in paths.values():
                path.mkdir()
            spec = {"protocol": 1, "paths": {role: str(path) for role, path in paths.items()}, "scratch": f"{folder}/scratch",
                    "cache": f"{folder}/cache", "tools": f"{folder}/tools", "seed": 3,
                    "parameters": {"workload": workload, "warm_s": 0.5, "seconds": 1.5, "clients": 2, **parameters}}
            for phase in ("place", "load"):
                done = subprocess.run([PROGRAM, "run"], input=json.dumps({**spec, "phase": phase}), capture_output=True,
                                      text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.sizes = {role: sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
                          for role, path in paths.items()}
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return {line["figure"]["name"]: line["figure"]["value"] for line in lines if "figure" in line}

    def test_a_bulk_load(self):
        said = self.figures("mariadb_load", size=0.01)
        self.assertGreater(said["work_done"], 10)
        # New tables: at least nine pages of each client's three, in addition to the existing ones.
        self.assertGreater(self.sizes["data"], 10 << 20)
        self.assertGreater(self.sizes["log"], 1 << 20)

    def test_reports(self):
        said = self.figures("postgresql_scan", size=0.01, settings=["jit=off"])
        self.assertGreater(said["work_done"], 10)
        self.assertGreater(said["work_mean"], 0)


if __name__ == "__main__":
    unittest.main()
