"""Tests of guest.py with a run and a prediction whose figures are known."""

import contextlib
import io
import json
import struct
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import guest

SETTINGS = "# name and properties\ntoday recordsize=128K\nother recordsize=16K\n"


def write_sample(path, uptime, cpu=(0, 0, 0, 0), disk=(0, 0), direct=0):
    """Writes counters: user, nice, system and idle ticks; sectors read and written."""
    fields = " ".join(map(str, (*cpu, 0, 0, 0, 0, 0, 0)))
    path.write_text(f"uptime {uptime}\ncpu {fields}\ndisk 0 0 {disk[0]} 0 0 0 {disk[1]} 0\n{guest.DIRECT} {direct}\n"
                    "arcstats:demand_data_hits 0\narcstats:demand_data_iohits 0\narcstats:demand_data_misses 0\n")


def write_ends(path, rate, seconds):
    path.write_bytes(b"".join(struct.pack("<qq", int((10 + n / rate) * 1e9), 1) for n in range(1, int(rate * seconds) + 1)))


def write_run(measured, name, rate):
    """Ten seconds of load, of which five are measured, and half of those are idle."""
    write_sample(measured / f"{name}.0", 10)
    write_sample(measured / f"{name}.1", 12)
    write_sample(measured / f"{name}.2", 17, cpu=(100, 0, 150, 250))
    write_sample(measured / f"{name}.3", 21, disk=(rate * 20, rate * 40))
    write_ends(measured / f"{name}.log", rate, 10)
    (measured / f"{name}.space").write_text("1000000\n")


def write_prediction(path, work_rate):
    path.write_text(json.dumps({
        "work_rate": work_rate, "work_share": 1.0, "seconds": 10 / work_rate, "cpu_seconds": 5.0, "application_cpu_seconds": 1.0, "allocated_bytes": 2000000,
        "vdev": {"write_bytes": 512000, "read_bytes": 1024000}}))


class Guest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)
        for name in ("measured", "recorded", "predicted"):
            (self.out / name).mkdir()
        write_run(self.out / "measured", "today.1", 100)
        write_run(self.out / "measured", "other.1", 200)

    def test_a_run_is_for_each_unit_of_work(self):
        run = guest.run(self.out / "measured", "today.1")
        self.assertEqual(run["rate"], 100)
        # A second of user and one and a half of system time, in which 500 units were done.
        self.assertEqual((run["user_ms"], run["system_ms"], run["cpu_ms"], run["idle"]), (2, 3, 5, 0.5))
        self.assertEqual((run["read"], run["written"]), (2 * 512, 4 * 512))

    def test_a_prediction_is_for_each_unit_of_the_recording(self):
        write_prediction(self.out / "predicted" / "today.json", 0.5)
        found = guest.predicted(self.out / "predicted" / "today.json", 50, 10)
        # Ten recorded seconds at 50 units.
        self.assertEqual((found["rate"], found["cpu_ms"], found["application_ms"], found["written"]), (25, 10, 2, 1024))

    def test_a_change_from_nothing_is_not_printed(self):
        self.assertEqual([guest.percent(3, 2), guest.percent(3, 0)], ["+50", ""])

    def test_the_tables_compare_changes(self):
        for n, uptime in ((1, 10), (2, 20)):
            write_sample(self.out / "recorded" / f"recorded.{n}", uptime)
        write_ends(self.out / "recorded" / "recorded.log", 100, 10)
        write_prediction(self.out / "predicted" / "today.json", 1.0)
        write_prediction(self.out / "predicted" / "other.json", 1.5)
        (self.out / "recorded" / "seconds").write_text("10\n")
        (self.out / "settings").write_text(SETTINGS)
        with mock.patch("sys.argv", ["guest.py", str(self.out), str(self.out / "settings")]), contextlib.redirect_stdout(io.StringIO()) as out:
            guest.main()
        self.assertIn("| other | +50 | +100 | -50 |", out.getvalue())
        self.assertIn("Signs: 1 of 1 clear changes. Order: 1 of 1 clear pairs.", out.getvalue())


if __name__ == "__main__":
    unittest.main()
