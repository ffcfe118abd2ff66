"""Tests the driver `innodb`: its parsing of other programs' output, and its phases on files, without a server."""

import importlib.machinery
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
ROOT = LAB.parents[1]
sys.path.insert(0, str(LAB))

import innodb_load  # noqa: E402
import innodb_memory  # noqa: E402
import innodb_replica  # noqa: E402
import innodb_tables  # noqa: E402
from common import driver  # noqa: E402
from innodb_beside import Beside  # noqa: E402

PAGE = 16 << 10


def program():
    loader = importlib.machinery.SourceFileLoader("innodb_program", str(LAB / "innodb"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("innodb_program", loader))
    loader.exec_module(module)
    return module


def run(phase, folder, paths, **parameters):
    """Runs a phase of the driver; returns (its lines, its standard error, exit code)."""
    spec = {"protocol": 1, "phase": phase, "parameters": parameters, "paths": {role: str(path) for role, path in paths.items()},
            "scratch": f"{folder}/scratch", "cache": f"{folder}/cache", "tools": "", "seed": 7, "engine_pid": os.getpid()}
    done = subprocess.run([LAB / "innodb", "run"], input=json.dumps(spec), capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr, done.returncode


def figures(lines):
    return {line["figure"]["name"]: line["figure"]["value"] for line in lines if "figure" in line}


def latencies(lines):
    return {line["latency"]["op"]: line["latency"] for line in lines if "latency" in line}


class Words(unittest.TestCase):
    def test_sysbench(self):
        text = (LAB / "tests" / "sysbench.txt").read_text()
        count, per_s, seen = innodb_load.parse(text)
        self.assertEqual(count, seen.count)
        self.assertGreater(per_s, 0)
        # The value that sysbench prints, within a bucket of its histogram and one of ours.
        said = float(next(line for line in text.splitlines() if "95th" in line).split()[-1])
        self.assertAlmostEqual(seen.percentile(0.95) / 1e6, said, delta=said * 0.05)
        with self.assertRaises(driver.Failure):
            innodb_load.parse("FATAL: nothing")

    def test_positions(self):
        self.assertEqual([innodb_replica.number_of(p) for p in ("", "0-1-17", "0-1-170000")], [0, 17, 170000])
        seen = innodb_replica.status("*** 1. row ***\n   Gtid_IO_Pos: 0-1-5\n  Last_SQL_Error: a: b\n   Empty:\n")
        self.assertEqual((seen["Gtid_IO_Pos"], seen["Last_SQL_Error"]), ("0-1-5", "a: b"))

    def test_sizes(self):
        self.assertEqual([innodb_memory.size(t) for t in ("512", "512M", "2G")], [512, 512 << 20, 2 << 30])
        with self.assertRaises(driver.Failure):
            innodb_memory.size("much")

    def test_refusals(self):
        for log in (LAB / "tests" / "refusals.txt").read_text().split("\n\n"):
            self.assertIsNotNone(innodb_memory.refusal(log), log)
        self.assertIsNone(innodb_memory.refusal("2026-01-01 0 [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11"))

    def test_table_sizes_are_the_reports(self):
        self.assertEqual([innodb_tables.size_mib(name, 1.0) for name in innodb_tables.NAMES], [172, 631, 2675, 2828])
        self.assertEqual(innodb_tables.size_mib("table1", 0.01), innodb_tables.LEAST_MIB)
        for wrong in (0.0, 1.5):
            with self.assertRaises(driver.Failure):
                innodb_tables.size_mib("table1", wrong)

    def test_the_campaign_asks_for_phases_that_there_are(self):
        phases = program().PHASES
        campaign = tomllib.loads((ROOT / "campaigns" / "innodb.toml").read_text())
        for study in campaign["study"]:
            for phase in study["phase"]:
                self.assertIn(phase["name"], phases)


class OnFiles(unittest.TestCase):
    """Tests with fictitious tables (pages of letters), which need no server."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.target = Path(folder.name), Path(folder.name) / "target"
        self.target.mkdir()
        (self.folder / "cache").mkdir()
        draw = random.Random(5)
        self.table = bytes(draw.choices(b"abcdefghijklmnop", k=64 * PAGE))
        spec = driver.Spec({"protocol": 1, "phase": "x", "scratch": folder.name, "cache": f"{folder.name}/cache",
                            "parameters": {"share": 0.01}})
        for name in innodb_tables.NAMES:
            innodb_tables.path(spec, name).write_bytes(self.table)

    def test_a_table_is_copied_alone_and_the_prompt_is_watched(self):
        (self.target / "table1.ibd").write_bytes(b"of an earlier phase")
        # Large enough that a copy takes longer than the interval of the prompt.
        (table,) = (self.folder / "cache").rglob("*table2*")
        self.table *= 64
        table.write_bytes(self.table)
        lines, error, status = run("table2", self.folder, {"target": self.target}, share=0.01)
        self.assertEqual((status, error), (0, ""))
        self.assertEqual(os.listdir(self.target), ["table2.ibd"])
        self.assertEqual((self.target / "table2.ibd").read_bytes(), self.table)
        said = figures(lines)
        self.assertGreaterEqual(said["durable_s"], said["copy_s"])
        # The table is read from memory; a page of cp itself may not be.
        self.assertLess(said["source_reads"], len(self.table) // 2)
        self.assertGreaterEqual(latencies(lines)["wake"]["count"], 1)
        order = [next(iter(line)) for line in lines]
        self.assertEqual((order[0], order.count("measure")), ("measure", 2))

    def test_a_short_copy_is_repeated(self):
        lines, error, status = run("table1", self.folder, {"target": self.target}, share=0.01, least_s=2.0)
        self.assertEqual((status, error), (0, ""))
        said = figures(lines)
        self.assertGreater(said["copies"], 1)
        self.assertLess(said["durable_s"], 2.0)
        self.assertEqual((self.target / "table1.ibd").read_bytes(), self.table)
        self.assertGreaterEqual(said["engine_s"], 0)

    def test_copies_are_written_and_read_back(self):
        for phase in ("write", "read"):
            lines, error, status = run(phase, self.folder, {"target": self.target}, share=0.01, copies=3)
            self.assertEqual((status, error), (0, ""))
            done = [line["progress"] for line in lines if "progress" in line][-1]
            self.assertEqual((done["done"], done["of"]), (3 * len(self.table), 3 * len(self.table)))

    def test_small_calls(self):
        (self.folder / "db").mkdir()
        for phase, ops in (("place", []), ("cold", ["cold_read_512", "cold_read_4k", "cold_read_16k"]),
                           ("warm", ["read_512", "read_4k", "read_16k"]), ("synced", ["write_512", "write_4k", "write_16k"])):
            lines, error, status = run(phase, self.folder, {"db": self.folder / "db"}, share=0.01, seconds=0.05)
            self.assertEqual((status, error), (0, ""))
            self.assertEqual(list(latencies(lines)), ops)
            if phase == "cold":
                # No page is read twice: 64 pages in three shares.
                self.assertEqual([seen["count"] for seen in latencies(lines).values()], [21, 21, 21])
        after = (self.folder / "db" / "table.ibd").read_bytes()
        self.assertEqual(len(after), len(self.table))
        self.assertNotEqual(after, self.table)

    def test_what_is_missing_is_said_in_a_sentence(self):
        lines, error, status = run("table2", self.folder, {"target": self.target}, share=0.5)
        self.assertEqual((status, lines), (1, []))
        self.assertIn("phase 'tables'", error)
        self.assertEqual(error.count("\n"), 1)


class ThePrompt(unittest.TestCase):
    def test_a_stop_is_seen(self):
        with Beside() as beside:
            beside.begin()
            # SIGSTOP simulates a machine that is busy with other work.
            os.kill(beside.process.pid, 19)
            time.sleep(0.3)
            os.kill(beside.process.pid, 18)
            # Time for at least one command, even on a busy machine.
            time.sleep(1)
            beside.end()
        wake = beside.counted["wake"]
        self.assertGreaterEqual(wake.max, 250_000_000)
        # The keys that were pressed in the meantime have waited too: 60 of them, all but the last four for
        # more than 20 ms.
        late = sum(count for bucket, count in wake.buckets.items() if wake._middle(bucket) > 20_000_000)
        self.assertGreaterEqual(late, 50)
        self.assertGreater(beside.quiet["wake"].count, 20)
        self.assertGreater(beside.counted["shell"].count, 0)


if __name__ == "__main__":
    unittest.main()
