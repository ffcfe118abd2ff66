"""Tests the driver `innodb` with a real MariaDB and little data. Takes about a minute; skipped without MariaDB."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import innodb_server  # noqa: E402
import test_innodb  # noqa: E402
from test_innodb import figures, latencies  # noqa: E402

MISSING = list(innodb_server.check())


@unittest.skipIf(MISSING, "; ".join(MISSING))
class WithMariaDb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.folder = Path(cls.place.name)

    def run_phase(self, phase, roles, **parameters):
        paths = {role: self.folder / role for role in roles}
        for path in paths.values():
            path.mkdir(exist_ok=True)
        lines, error, status = test_innodb.run(phase, self.folder, paths, **parameters)
        self.assertEqual((status, error), (0, ""))
        return lines

    def test_the_tables_compress_like_the_reports(self):
        lines = self.run_phase("tables", [], share=0.001)
        made = {path.name.split("-")[0]: path for path in (self.folder / "cache").glob("table*.ibd")}
        self.assertEqual({name: path.stat().st_size for name, path in made.items()},
                         {f"table{i}": 8 << 20 for i in (1, 2, 3, 4)})
        said = figures(lines)
        # Within a third of the report's gzip-9 ratio: small tables have more empty pages, and the first
        # megabytes of table3 vary less than the rest.
        for name, ratio in (("table1", 3.73), ("table2", 2.67), ("table4", 2.09)):
            self.assertAlmostEqual(said[f"{name}_gzip6_ratio"], ratio, delta=ratio * 0.3)
        self.assertGreater(said["table3_gzip6_ratio"], 8)
        # Pages of InnoDB: each contains its own number.
        page = made["table2"].read_bytes()[100 * 16384:101 * 16384]
        self.assertEqual(int.from_bytes(page[4:8], "big"), 100)

    def test_a_replica_follows(self):
        given = {"shop": 0.01, "seconds": 2, "write_rate": 20, "read_rate": 20, "backlog": 30, "write_threads": 2,
                 "read_threads": 1, "buffer_pool": "16M", "primary_buffer_pool": "32M", "doublewrite": "OFF"}
        self.run_phase("servers", ["replica"], **given)
        for phase in ("writes", "reads"):
            lines = self.run_phase(phase, ["replica"], **given)
            self.assertGreater(latencies(lines)["lag"]["count"], 5)
            self.assertGreater(latencies(lines)["write"]["count"], 5)
            self.assertEqual(phase == "reads", "read" in latencies(lines))
        lines = self.run_phase("backlog", ["replica"], **given)
        self.assertGreater(figures(lines)["apply_rate"], 0)
        done = [line["progress"] for line in lines if "progress" in line][-1]
        # 30 events, some of which have two transactions.
        self.assertEqual(done["done"], done["of"])
        self.assertGreaterEqual(done["of"], 30)

    def test_tables_are_overwritten(self):
        given = {"shop": 0.01, "seconds": 2, "write_threads": 2}
        self.run_phase("shop", ["db"], **given)
        lines = self.run_phase("overwrite", ["db"], **given)
        self.assertGreater(figures(lines)["writes_per_s"], 0)
        self.assertGreater(figures(lines)["flushed_bytes"], 16 << 10)
        self.assertGreater(latencies(lines)["write"]["count"], 5)
        done = [line["progress"] for line in lines if "progress" in line][-1]
        self.assertGreaterEqual(done["done"], 2)

    def test_a_buffer_pool_that_does_not_fit_is_refused(self):
        roles, given = ["db", "other"], {"shop": 0.01, "fill_mib": 1, "seconds": 1, "threads": 1, "memory": "2G"}
        self.run_phase("database", roles, **given)
        self.run_phase("fill_arc", roles, **given)
        for size, starts in (("32M", 1), ("4096M", 0), ("32M", 1)):
            lines = self.run_phase("next_start", roles, buffer_pool=size, **given)
            self.assertEqual(figures(lines)["started"], starts)
            self.assertEqual(figures(lines)["reads_per_s"] > 0, bool(starts))
            self.assertEqual(any("does not start" in line.get("log", "") for line in lines), not starts)

    def tearDown(self):
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and self._runs_here(pid)]
        self.assertEqual(left, [])

    def _runs_here(self, pid):
        try:
            return str(self.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes() and int(pid) != os.getpid()
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
