"""Tests the shared parts of the drivers; those about processes with a real driver process."""

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(LAB))

from common import driver, server  # noqa: E402

DRIVER = textwrap.dedent(f"""
    import sys, time, os, signal
    sys.path.insert(0, {str(LAB)!r})
    from common import driver, server

    def work(spec):
        print("not the protocol's")
        times = driver.Latencies()
        with driver.measured(), driver.Progress(10, "things") as progress:
            for _ in range(10):
                with times.timed():
                    progress.add()
        driver.latency("thing", times)
        driver.figure("things_per_s", 5, "1/s")
        driver.log(str(spec.get("much", 1)))

    def serve(spec):
        with server.Server("sleeper", ["sleep", "1000"], spec.scratch) as it:
            driver.log(str(it.process.pid))
            time.sleep(1000)

    def fail(spec):
        spec.get("nothing")

    driver.main({{"work": work, "serve": serve, "fail": fail}}, lambda: server.missing("sh", "dash"))
""")


def gone(pid):
    try:
        # A killed child of an ended process stays a zombie until init reaps it.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Created(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_the_result_appears_when_it_is_complete(self):
        wanted = self.folder / "new" / "file"
        with driver.created(wanted) as temporary:
            temporary.write_text("content")
            self.assertFalse(wanted.exists())
        self.assertEqual([path.name for path in wanted.parent.iterdir()], ["file"])

    def test_nothing_is_left_of_a_failure(self):
        with self.assertRaises(ValueError), driver.created(self.folder / "tree") as temporary:
            temporary.mkdir()
            (temporary / "half").touch()
            raise ValueError
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_first_of_two_processes_wins(self):
        wanted = self.folder / "tree"
        with driver.created(wanted) as temporary:
            temporary.mkdir()
            (temporary / "second").touch()
            wanted.mkdir()
            (wanted / "first").touch()
        self.assertEqual([path.name for path in self.folder.rglob("*")], ["tree", "first"])


class ADriver(unittest.TestCase):
    def start(self, phase, **parameters):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        spec = {"protocol": 1, "phase": phase, "parameters": parameters, "paths": {}, "scratch": folder.name, "seed": 1}
        child = subprocess.Popen([sys.executable, "-c", DRIVER, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        child.stdin.write(json.dumps(spec))
        child.stdin.close()
        self.addCleanup(lambda: [child.kill(), child.wait(), child.stdout.close(), child.stderr.close()])
        return child

    def test_says_the_lines_of_the_protocol_and_nothing_else(self):
        child = self.start("work", much=3)
        lines = [json.loads(line) for line in child.stdout]
        self.assertEqual(child.wait(), 0)
        # Progress is printed at the beginning, at the end and every half second.
        kinds = [kind for kind, _ in itertools.groupby(next(iter(line)) for line in lines)]
        self.assertEqual(kinds, ["measure", "progress", "measure", "latency", "figure", "log"])
        said = [line["progress"] for line in lines if "progress" in line]
        self.assertGreaterEqual(len(said), 2)
        self.assertEqual(said[-1], {"done": 10, "unit": "things", "of": 10})
        self.assertEqual(lines[-3]["latency"]["count"], 10)
        self.assertEqual(lines[-1]["log"], "3")
        self.assertIn("not the protocol's", child.stderr.read())

    def test_failures_are_one_sentence(self):
        child = self.start("fail")
        self.assertEqual(child.wait(), 1)
        error = child.stderr.read()
        self.assertIn("'nothing' is missing", error)
        self.assertEqual(error.count("\n"), 1)

    def test_a_server_ends_with_its_driver(self):
        for end in ("terminate", "kill"):
            child = self.start("serve")
            sleeper = int(json.loads(child.stdout.readline())["log"])
            self.assertFalse(gone(sleeper))
            getattr(child, end)()
            self.assertEqual(child.wait(60), {"terminate": 143, "kill": -9}[end])
            until = time.monotonic() + 60
            while not gone(sleeper) and time.monotonic() < until:
                time.sleep(0.01)
            self.assertTrue(gone(sleeper), end)

    def test_check(self):
        child = subprocess.run([sys.executable, "-c", DRIVER, "--check"], capture_output=True, text=True)
        self.assertEqual((child.returncode, child.stdout), (0, ""))
        self.assertEqual(len(list(server.missing("no-such-program", "nowhere"))), 1)


class TheRest(unittest.TestCase):
    def test_percentiles_are_within_a_bucket(self):
        draw = random.Random(3)
        times = [int(draw.lognormvariate(12, 2)) for _ in range(20000)]
        one, two = driver.Latencies(), driver.Latencies()
        for i, ns in enumerate(times):
            (one if i % 3 else two).add(ns)
        one.merge(two)
        times.sort()
        for name, share in {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}.items():
            exact = times[int(share * len(times)) - 1]
            self.assertAlmostEqual(one.summary()[name], exact, delta=exact * 0.016 + 1)
        self.assertEqual(one.summary()["max"], times[-1])

    def test_parameters_have_the_kind_of_their_default(self):
        spec = driver.Spec({"protocol": 1, "phase": "x", "scratch": "/nowhere", "parameters": {"n": 2, "name": "a"}})
        self.assertEqual((spec.get("n", 1), spec.get("n", 0.5), spec.get("m", 7)), (2, 2.0, 7))
        for wrong in (("name", 1), ("n", "x"), ("n", True)):
            with self.assertRaises(driver.Failure):
                spec.get(*wrong)
        self.assertNotEqual(spec.random("a").random(), spec.random("b").random())

    def test_a_cached_file_is_made_once_and_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = driver.Spec({"protocol": 1, "phase": "x", "scratch": folder, "cache": f"{folder}/cache"})
            with self.assertRaises(ZeroDivisionError):
                spec.cached("half", lambda path: [path.write_text("half"), 1 / 0])
            self.assertEqual(os.listdir(spec.cache), [])
            path = spec.cached("whole", lambda path: path.write_text("whole"))
            self.assertEqual(spec.cached("whole", lambda _: self.fail("made twice")), path)
            self.assertEqual(path.read_text(), "whole")


if __name__ == "__main__":
    unittest.main()
