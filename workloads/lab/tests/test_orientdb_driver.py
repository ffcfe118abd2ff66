"""Tests the driver `orientdb` with small graphs in a directory: every phase and its results. Skipped if not built."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(LAB))

from common import jvm  # noqa: E402

DRIVER = LAB / "orientdb"
TOOLS = jvm.ROOT / "target" / "lab"
MISSING = list(jvm.check("orientdb", TOOLS))
SMALL = {"vertices": 500, "edges": 737, "heap": "256m", "cache": "64M", "compiler": "quick"}


@unittest.skipIf(MISSING, "; ".join(MISSING))
class OrientdbTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="poolwright-orientdb-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.paths = {role: self.root / role for role in ("data", "wal", "backup", "archive", "lucene", "neighbour")}
        for path in (*self.paths.values(), self.root / "scratch", self.root / "cache"):
            path.mkdir()

    def spec(self, phase, **parameters):
        return json.dumps({
            "protocol": 1, "phase": phase, "parameters": {**SMALL, **parameters},
            "paths": {role: str(path) for role, path in self.paths.items()}, "scratch": str(self.root / "scratch"),
            "cache": str(self.root / "cache"), "tools": str(TOOLS), "seed": 17})

    def run_phase(self, phase, **parameters):
        """Parses the output: figures, latencies, and all lines."""
        done = subprocess.run([DRIVER, "run"], input=self.spec(phase, **parameters), capture_output=True, text=True, timeout=900)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["measure"] for line in lines if "measure" in line], ["start", "stop"])
        progress = [line["progress"] for line in lines if "progress" in line]
        self.assertEqual(progress[-1]["done"], progress[-1]["of"])
        self.figures = {line["figure"]["name"]: line["figure"]["value"] for line in lines if "figure" in line}
        self.latencies = {line["latency"]["op"]: line["latency"] for line in lines if "latency" in line}
        self.logs = [line["log"] for line in lines if "log" in line]

    def refused(self, phase, **parameters):
        done = subprocess.run([DRIVER, "run"], input=self.spec(phase, **parameters), capture_output=True, text=True, timeout=900)
        self.assertEqual(done.returncode, 1)
        return done.stderr.splitlines()[-1]

    def size(self, role):
        return sum(file.stat().st_size for file in self.paths[role].rglob("*") if file.is_file())

    def test_import_backup_archive_index_search(self):
        self.run_phase("import", batch=100)
        self.assertEqual((self.figures["vertices"], self.figures["edges"]), (500, 737))
        self.assertEqual(self.latencies["transaction"]["count"], 8)
        self.assertGreater(self.figures["data_gzip6_ratio"], 1.5)
        self.assertLess(self.figures["data_gzip6_ratio"], 20)
        self.assertFalse((self.paths["data"] / "dbpedia" / "dirty.fl").read_bytes()[:1] == b"\x01", "it was not closed")

        self.run_phase("backup")
        backup = self.paths["backup"] / "dbpedia.zip"
        # Level 0 stores without compression: the length of the files, plus their names.
        self.assertGreater(backup.stat().st_size, 0.9 * self.figures["database_length"] - (1 << 20))
        with zipfile.ZipFile(backup) as content:
            self.assertIsNone(content.testzip())
            self.assertTrue(any(name.startswith("nodo") for name in content.namelist()), content.namelist())
        stored = self.size("backup")

        self.run_phase("archive")
        self.assertEqual((self.size("backup"), self.size("archive")), (0, stored))

        self.run_phase("lucene", lines_every=0.001)
        self.assertEqual(self.figures["index_length"], self.size("lucene"))
        self.assertGreater(self.size("lucene"), 10_000)
        self.assertRegex(self.logs[0], r"^Building index dbpedia\.Nodo\.content \(estimated 500 items\)\.\.\.$")
        self.assertRegex(self.logs[1], r"^--> [0-9.]+% progress, [0-9,]+ indexed so far \([0-9,]+ items/sec\)$")
        self.assertRegex(self.logs[-1], r"^--> OK, indexed 500 items in [0-9,]+ ms$")

        self.run_phase("search", searches=50)
        self.assertEqual(self.latencies["search"]["count"], 50)

    def test_a_loaded_database_is_an_imported_one(self):
        for _ in range(2):
            self.run_phase("load", batch=100)
            made = next(self.root.glob("cache/database-*/data/dbpedia"))
            self.assertEqual(sorted(file.name for file in made.iterdir()), sorted(file.name for file in (self.paths["data"] / "dbpedia").iterdir()))
            self.run_phase("backup")
            self.run_phase("archive")
            for path in (self.paths["data"], self.paths["wal"]):
                subprocess.run(["find", path, "-mindepth", "1", "-delete"], check=True)

    def test_one_by_one_keeps_the_wal(self):
        self.run_phase("import", keep_wal=True)
        self.assertEqual(self.latencies["triple"]["count"], 737)
        self.assertEqual(self.figures["wal_length"], self.size("wal"))
        kept = self.size("wal")
        for path in (self.paths["data"], self.paths["wal"]):
            subprocess.run(["find", path, "-mindepth", "1", "-delete"], check=True)
        self.run_phase("import", keep_wal=False)
        self.assertLess(self.size("wal"), kept / 2)

    def test_through_a_server(self):
        self.run_phase("import", access="remote", vertices=100, edges=147)
        self.assertEqual((self.figures["vertices"], self.figures["edges"]), (100, 147))

    def test_records_are_compressed_where_orientdb_does_it(self):
        self.run_phase("import", batch=100, cluster_version=1, compression="gzip")
        clusters = [file.read_bytes() for file in (self.paths["data"] / "dbpedia").glob("nodo*.pcl")]
        packed = sum(content.count(b"\x1f\x8b\x08") for content in clusters)
        plain = sum(content.count(b"dbpedia.org/resource") for content in clusters)
        # Pages may still contain bytes from before a record was moved.
        self.assertGreaterEqual(packed, 500)
        self.assertLess(plain, 50)

    def test_a_real_file_as_far_as_asked_for(self):
        file = self.root / "categories.nt"
        file.write_text("# started\n<a> <p> <x> .\n<a> <p> <y> .\n<b> <p> <x> .\n# completed\n")
        self.run_phase("import", file=str(file), edges=0)
        self.assertEqual((self.figures["vertices"], self.figures["edges"]), (4, 3))

    def test_an_import_continues_during_a_backup_and_its_move(self):
        self.run_phase("load", batch=100)
        # The triples end before the backup begins, and are imported again.
        self.run_phase("backup_during_import", vertices=50, edges=60)
        with zipfile.ZipFile(self.paths["archive"] / "dbpedia.zip") as archive:
            self.assertIsNone(archive.testzip())
            self.assertTrue(any(name.startswith("nodo_") for name in archive.namelist()))
        self.assertEqual(list(self.paths["backup"].iterdir()), [])
        self.assertGreater(self.figures["quiet_rate"], 0)
        self.assertGreater(self.latencies["quiet_triple"]["count"], 60)
        self.assertGreaterEqual(self.figures["backup_s"] + self.figures["archive_s"], self.figures["blocked_s"] / 2)

    def test_a_neighbour_writes_during_the_import(self):
        self.run_phase("import", neighbour=True)
        self.assertEqual((self.figures["vertices"], self.figures["edges"]), (500, 737))
        self.assertGreater(self.latencies["neighbour"]["count"], 0)
        self.assertGreater(self.figures["neighbour_writes_per_s"], 0)
        self.assertEqual(self.size("neighbour"), 16 << 20)

    def test_words_are_found_during_an_import(self):
        # Every phase has the same size: the searches draw their names from the triples that were loaded.
        graph = {"vertices": 5_000, "edges": 7_370, "analyzer": "simple"}
        self.run_phase("load", batch=100, **graph)
        self.run_phase("lucene", **graph)
        self.run_phase("search", searches=50, **graph)
        self.run_phase("search_during_import", searches=50, batch=10, **graph)
        self.assertGreater(self.latencies["search"]["count"], 0)
        self.assertGreater(self.figures["triples_per_s"], 0)

    def test_an_import_without_triples_during_a_backup_is_an_error(self):
        self.run_phase("load", batch=100)
        file = self.root / "empty.nt"
        file.write_text("# started\n# completed\n")
        self.assertIn("no triple", self.refused("backup_during_import", file=str(file), edges=0))

    def test_what_cannot_be_is_said_in_a_sentence(self):
        self.assertIn("no database in", self.refused("backup"))
        self.assertIn("no backup in", self.refused("archive"))
        self.assertIn("unknown phase", self.refused("fill"))
        self.assertIn("unknown parameter", self.refused("import", vertexes=3))

    def test_it_ends_soon_after_sigterm(self):
        driver = subprocess.Popen([DRIVER, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(driver.stdout.close)
        self.addCleanup(driver.kill)
        driver.stdin.write(self.spec("import", vertices=200_000, edges=294_860))
        driver.stdin.close()
        for line in driver.stdout:
            if json.loads(line).get("progress", {}).get("done", 0) > 0:
                break
        began = time.monotonic()
        os.kill(driver.pid, signal.SIGTERM)
        # Ten seconds on an idle machine; the phase would otherwise take many minutes.
        driver.wait(60)
        self.assertLess(time.monotonic() - began, 60)


if __name__ == "__main__":
    unittest.main()
