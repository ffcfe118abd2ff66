"""Tests the driver `timeseries` as a process, with little data in a directory."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
DRIVER = LAB / "timeseries"
TINY = {"metrics": 70, "seconds": 1200, "points_per_file": 700, "template_s": 1200, "queries": 20, "window_s": 300,
        "run_s": 1.0, "points_per_s": 20_000.0, "queries_per_s": 50.0}


class Phases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for role in ("db", "data"):
            (self.root / role).mkdir()

    def phase(self, name, **parameters):
        """Runs a phase that must succeed; returns its figures, latencies and other lines."""
        spec = {"protocol": 1, "phase": name, "parameters": parameters, "scratch": str(self.root / "scratch"), "seed": 3,
                "cache": str(self.root / "cache"), "paths": {role: str(self.root / role) for role in ("db", "data")}}
        run = subprocess.run([DRIVER, "run"], input=json.dumps(spec), capture_output=True, text=True, timeout=900,
                             env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        figures = {line["figure"]["name"]: line["figure"]["value"] for line in lines if "figure" in line}
        latencies = {line["latency"]["op"]: line["latency"] for line in lines if "latency" in line}
        if any("measure" in line for line in lines):
            last = [line["progress"] for line in lines if "progress" in line][-1]
            # A busy machine may not reach a steady rate; everything else is done to the end.
            if "of" in last and name != "steady":
                self.assertEqual(last["done"], last["of"])
        return figures, latencies

    def test_flat_files_hold_what_was_ingested(self):
        figures, latencies = self.phase("ingest", store="flat", every=10, **TINY)
        self.assertEqual(figures["points"], 70 * 120)
        self.assertGreater(figures["data_gzip6_ratio"], 10)
        self.assertGreaterEqual(latencies["write"]["count"], 70 * 10)
        # The query phase fails if a point is missing.
        self.assertEqual(self.phase("query", store="flat", every=10, **TINY)[1]["query"]["count"], 20)
        figures, latencies = self.phase("steady", store="flat", every=10, **TINY)
        self.assertIn("late_s", figures)
        self.assertGreater(latencies["query"]["count"], 3)
        # A rate that every machine holds; the bisection doubles it until it is not held.
        figures, latencies = self.phase("capacity", store="flat", every=10, **{**TINY, "run_s": 0.3, "points_per_s": 5_000.0})
        self.assertGreater(figures["held_per_s"], 0)
        self.assertGreater(figures["generated_per_s"], figures["held_per_s"])
        self.assertGreater(latencies["write"]["count"], 0)

    @unittest.skipUnless(shutil.which("victoria-metrics"), "victoria-metrics is not installed")
    def test_victoria_metrics_holds_what_was_ingested(self):
        self.assertEqual(self.phase("ingest", store="victoria", **TINY)[0]["points"], 70 * 1200)
        self.phase("query", store="victoria", **TINY)
        self.phase("steady", store="victoria", **TINY)
        self.assertTrue((self.root / "db" / "data").is_dir())

    @unittest.skipUnless(shutil.which("fio"), "fio is not installed")
    def test_fio_lays_and_mixes(self):
        # Large enough that fio's time in whole milliseconds is precise.
        figures, _ = self.phase("lay", size="16M")
        self.assertEqual((self.root / "data" / "test").stat().st_size, 16 << 20)
        self.assertGreater(figures["data_entropy"], 7)
        figures, _ = self.phase("mix", size="16M")
        self.assertAlmostEqual(figures["read_iops"] / figures["iops"], 0.75, delta=0.1)
        figures, _ = self.phase("mix", size="16M", fio_time_based=1, fio_runtime=1, fio_readwrite="randwrite", fio_rwmixread="")
        self.assertEqual(figures["read_iops"], 0)

    def test_what_is_asked_wrongly_is_said(self):
        spec = {"protocol": 1, "phase": "ingest", "parameters": {**TINY, "store": "paper"}, "scratch": str(self.root),
                "paths": {"db": str(self.root / "db")}}
        run = subprocess.run([sys.executable, "-B", DRIVER, "run"], input=json.dumps(spec), capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("expected one of flat, victoria", run.stderr)


if __name__ == "__main__":
    unittest.main()
