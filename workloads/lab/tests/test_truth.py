"""Tests the driver `truth`: the copy of a prepared database, its window, and its encoding of LDAP."""

import array
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

LAB = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(LAB))

import truth_kv  # noqa: E402
import truth_loads  # noqa: E402
import truth_openldap  # noqa: E402
from common import driver  # noqa: E402


class Copy(unittest.TestCase):
    def test_holes_stay_holes_and_bytes_stay_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "a", Path(folder) / "b"
            (source / "deep").mkdir(parents=True)
            target.mkdir()
            with open(source / "deep" / "mostly-hole", "wb") as file:
                file.truncate(1 << 30)
                os.pwrite(file.fileno(), b"begin", 0)
                os.pwrite(file.fileno(), b"middle", (1 << 29) + 5)
            (source / "empty").touch()
            truth_loads._copy(source, target)
            copied = target / "deep" / "mostly-hole"
            self.assertEqual(copied.stat().st_size, 1 << 30)
            self.assertLess(copied.stat().st_blocks * 512, 1 << 20)
            with open(copied, "rb") as file:
                self.assertEqual(os.pread(file.fileno(), 5, 0), b"begin")
                self.assertEqual(os.pread(file.fileno(), 6, (1 << 29) + 5), b"middle")
            self.assertEqual((target / "empty").stat().st_size, 0)


class Bounds(unittest.TestCase):
    def test_a_store_runs_for_seconds_or_until_its_operations_are_done(self):
        given = {"warm_s": 15.0, "seconds": 30.0}
        self.assertEqual(truth_kv.bounds({**given}), {"warm_seconds": 15.0, "read_seconds": 30.0, "reads": 1 << 40})
        self.assertEqual(truth_kv.bounds({**given, "operations_per_s": 10000}),
                         {"warm_seconds": 75.0, "warm_reads": 150000, "read_seconds": 150.0, "reads": 300000})


class Window(unittest.TestCase):
    def test_only_what_ended_in_the_window_counts(self):
        second = truth_loads.NS_PER_S
        said = []
        with mock.patch.object(driver, "_say", said.append):
            truth_loads._say([(9, 1), (10 * second, 100), (11 * second, 300), (12 * second, 5)], 10 * second, 12 * second)
        figures = {line["figure"]["name"]: line["figure"]["value"] for line in said if "figure" in line}
        self.assertEqual(figures, {"work_per_s": 1.0, "work_done": 2, "work_mean": 200.0})
        self.assertEqual(json.loads(json.dumps(said))[-1]["latency"]["count"], 2)

    def test_a_window_without_work_is_a_failure(self):
        with self.assertRaises(driver.Failure):
            truth_loads._say([(9, 1)], 10, 12)

    def test_pairs_are_read_and_a_torn_one_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            clients = truth_loads.Clients(mock.Mock(scratch=Path(folder)), 1)
            clients.folder.mkdir()
            (clients.folder / "log.0").write_bytes(array.array("q", (5, 1, 7, 2)).tobytes() + b"torn")
            self.assertEqual(list(clients.transactions()), [(5, 1), (7, 2)])
            self.assertEqual(clients.done(), 2)


class Ber(unittest.TestCase):
    def test_lengths(self):
        self.assertEqual(truth_openldap.tlv(0x04, b"ab"), b"\x04\x02ab")
        self.assertEqual(truth_openldap.tlv(0x04, b"x" * 200)[:3], b"\x04\x81\xc8")
        self.assertEqual(truth_openldap.tlv(0x04, b"x" * 300)[:4], b"\x04\x82\x01\x2c")
        self.assertEqual(truth_openldap.element(truth_openldap.tlv(0x30, b"y" * 300)), (0x30, b"y" * 300))

    def test_whole_numbers_are_not_negative(self):
        self.assertEqual(truth_openldap.whole(0x02, 0), b"\x02\x01\x00")
        self.assertEqual(truth_openldap.whole(0x02, 127), b"\x02\x01\x7f")
        self.assertEqual(truth_openldap.whole(0x02, 128), b"\x02\x02\x00\x80")


if __name__ == "__main__":
    unittest.main()
