"""Tests the driver `kv` with each engine, the protocol and real files, and its documentation."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
ROOT = LAB.parents[1]
TOOLS = Path(os.environ.get("POOLWRIGHT_LAB_TOOLS", ROOT / "target" / "lab"))
PAGE = ROOT / "docs" / "campaigns" / "kv-engines.md"
SMALL = {"entries": 3000, "value": "200", "memory": "8M", "threads": 2, "reads": 4000, "warm_reads": 1000, "heap": "128m",
         "compiler": "quick", "leveldb.writebuffer.size": "1", "rocksdb.writebuffer.size": "1"}
ENGINES = ("leveldb", "bdb", "rocksdb", "lmdb")


def start():
    return subprocess.Popen([sys.executable, str(LAB / "kv"), "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


@unittest.skipUnless((TOOLS / "jvm" / "kv").is_dir(), "target/lab/jvm/kv is not built: scripts/lab/fetch.sh kv")
class KvDriver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kv-driver-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("db", "scratch", "cache"):
            (self.folder / name).mkdir()

    def spec(self, phase, seed=17, **parameters):
        return json.dumps({"protocol": 1, "phase": phase, "parameters": {**SMALL, **parameters},
                           "paths": {"db": str(self.folder / "db")}, "scratch": str(self.folder / "scratch"),
                           "cache": str(self.folder / "cache"), "tools": str(TOOLS), "seed": seed})

    def run_phase(self, phase, **parameters):
        with start() as child:
            out, err = child.communicate(self.spec(phase, **parameters), timeout=900)
        return child.returncode, [json.loads(line) for line in out.splitlines()], err

    def succeed(self, phase, **parameters):
        code, lines, err = self.run_phase(phase, **parameters)
        self.assertEqual(code, 0, err)
        return lines

    @staticmethod
    def figures(lines):
        return {line["figure"]["name"]: line["figure"]["value"] for line in lines if "figure" in line}

    def test_every_phase_on_every_engine(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                loaded = self.succeed("load", engine=engine, store=engine)
                self.assertEqual(self.figures(loaded)["user_bytes"], 3000 * 216)
                self.assertGreater(self.figures(loaded)["data_entropy"], 7.9)
                for phase, done in (("read", 4000), ("read-cold", 4000), ("read-scanned", 4000), ("scan", 3000),
                                    ("mixed", 4000)):
                    lines = self.succeed(phase, engine=engine, store=engine)
                    self.assert_measured(lines, done)

    def test_through_a_socket(self):
        self.succeed("load", access="remote")
        for phase in ("read", "mixed"):
            self.assert_measured(self.succeed(phase, access="remote"), 4000)
        self.assertEqual(list((self.folder / "scratch").glob("*.sock")), [])

    def assert_measured(self, lines, done):
        kinds = [line.get("measure") for line in lines]
        self.assertEqual([kind for kind in kinds if kind], ["start", "stop"])
        progress = [line["progress"] for line in lines if "progress" in line]
        self.assertEqual(progress[-1]["done"], done)
        self.assertGreater(self.figures(lines)[progress[-1]["unit"] + "_per_s"], 0)

    def test_latencies_are_of_the_measured_operations_alone(self):
        self.succeed("load")
        lines = self.succeed("read")
        (latency,) = [line["latency"] for line in lines if "latency" in line]
        self.assertEqual((latency["op"], latency["count"]), ("get", 4000))
        self.assertLessEqual(latency["p50"], latency["p99"])
        self.assertLessEqual(latency["p99"], latency["max"])

    def test_cold_reads_are_so_many_however_long_they_take(self):
        self.succeed("load")
        cold = self.succeed("read-cold", cold_reads=50, read_seconds=0)
        self.assert_measured(cold, 50)
        scanned = self.figures(self.succeed("read-scanned"))
        rates = scanned["gets_per_s"] / self.figures(cold)["gets_per_s"]
        self.assertAlmostEqual(scanned["scan_gain"], rates, delta=rates / 1e6)

    def test_unused_settings_are_listed_and_impossible_ones_refused(self):
        lines = self.succeed("load", engine="lmdb")
        logs = [line["log"] for line in lines if "log" in line]
        self.assertTrue(any("not used by LMDB" in log and "lrublockcache" in log for log in logs), logs)
        code, _, err = self.run_phase("load", **{"engine": "lmdb", "lmdb.compressiontype": "1"})
        self.assertEqual(code, 1)
        self.assertIn("lmdb.compressiontype=1 is not supported by LMDB", err)

    def test_other_data_than_was_loaded_is_noticed(self):
        self.succeed("load")
        code, _, err = self.run_phase("read", seed=18)
        self.assertEqual(code, 1)
        self.assertIn("is not in the store", err)

    def test_sigterm_ends_it(self):
        with start() as child:
            child.stdin.write(self.spec("load", entries=50_000_000))
            child.stdin.close()
            for line in child.stdout:
                if "progress" in line:
                    break
            child.send_signal(signal.SIGTERM)
            # The phase would otherwise take many minutes.
            began = time.monotonic()
            child.stdout.read()
            child.wait(timeout=60)
        self.assertLess(time.monotonic() - began, 60)

    def test_the_page_has_the_table_of_settings(self):
        libs = TOOLS / "jvm" / "kv"
        table = subprocess.run(["java", "-cp", f"{libs}/*", "poolwright.kv.Main", "settings"], capture_output=True,
                               text=True, check=True).stdout
        self.assertIn(table, PAGE.read_text(), "print it again: java -cp 'target/lab/jvm/kv/*' poolwright.kv.Main settings")


class KvCheck(unittest.TestCase):
    def test_check_says_what_to_do_or_nothing(self):
        done = subprocess.run([sys.executable, str(LAB / "kv"), "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1 if done.stdout else 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
