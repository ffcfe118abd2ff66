"""Tests the databases of scripts/truth.sh: the clients' logs and the encoding of LDAP; and, with little data, those that are installed."""

import array
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

LAB = Path(__file__).resolve().parents[1]
PROGRAM = LAB.parents[1] / "scripts" / "vm" / "truth_lab.py"
sys.path.insert(0, str(LAB))

import truth_loads  # noqa: E402
import truth_openldap  # noqa: E402
from common import driver  # noqa: E402


class Clients(unittest.TestCase):
    def test_pairs_are_read_and_a_torn_one_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            clients = truth_loads.Clients(mock.Mock(scratch=Path(folder)), 1)
            clients.folder.mkdir()
            (clients.folder / "log.0").write_bytes(array.array("q", (5, 1, 7, 2)).tobytes() + b"torn")
            self.assertEqual(list(clients.transactions()), [(5, 1), (7, 2)])


class WithServer(unittest.TestCase):
    """Fills a database, serves it and runs its clients, as scripts/truth.sh does."""

    def transactions(self, workload):
        """Returns the (end, duration) pairs of a second of load."""
        if missing := list(truth_loads.workload_named(workload).check()):
            self.skipTest("; ".join(missing))
        # The path of a server's socket must be short.
        with tempfile.TemporaryDirectory() as folder:
            more = [workload, f"{folder}/d", "--size", "0.01"]
            subprocess.run([sys.executable, PROGRAM, "fill", *more], check=True, stdout=subprocess.DEVNULL)
            more += ["--scratch", f"{folder}/s"]
            Path(folder, "s").mkdir()
            with subprocess.Popen([sys.executable, PROGRAM, "serve", *more], stdout=subprocess.PIPE, text=True) as server:
                try:
                    self.assertIn("ready\n", iter(server.stdout.readline, ""))
                    load = subprocess.run([sys.executable, PROGRAM, "load", *more, "--seconds", "1", "--clients", "2"], check=True,
                                          stdout=subprocess.PIPE)
                finally:
                    server.terminate()
        self.assertEqual(server.returncode, 0)
        return list(struct.iter_unpack("<qq", load.stdout))

    def test_each_workload(self):
        for workload in truth_loads.WORKLOADS:
            with self.subTest(workload):
                transactions = self.transactions(workload)
                self.assertGreater(len(transactions), 1)
                self.assertTrue(all(end > took > 0 for end, took in transactions))

    def test_an_unknown_workload_is_an_error(self):
        with self.assertRaises(driver.Failure):
            truth_loads.workload_named("abacus")


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
