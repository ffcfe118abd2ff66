"""Tests ldap-import: the LDIF, the rate, the servers' configuration and output, and a small import if a server exists."""

import base64
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(LAB))

import ldap_data  # noqa: E402
import ldap_servers  # noqa: E402
from common import server  # noqa: E402
from ldap_import import Rate  # noqa: E402


def entries_of(ldif):
    """Returns the LDIF's entries as lists of (attribute, value as bytes), unfolded according to RFC 2849."""
    for block in ldif.decode().replace("\n ", "").strip("\n").split("\n\n"):
        pairs = [re.fullmatch(r"([A-Za-z]+)(::?) (.*)", line).groups() for line in block.split("\n")]
        yield [(name, base64.b64decode(value) if colons == "::" else value.encode()) for name, colons, value in pairs]


class Data(unittest.TestCase):
    def test_a_seed_gives_its_data_and_a_longer_file_begins_alike(self):
        short, again, other = (ldap_data.chunk(0, 50, 2000, seed) for seed in (1, 1, 2))
        self.assertEqual(short, again)
        self.assertNotEqual(short, other)
        self.assertTrue(ldap_data.chunk(0, 80, 2000, 1).startswith(short))

    def test_entries_have_the_size_that_is_asked_for(self):
        for size in (1500, 4700):
            got = len(ldap_data.chunk(0, 500, size, 3)) / 500
            self.assertAlmostEqual(got / size, 1, delta=0.06, msg=f"{got} instead of {size}")

    def test_the_whole_file_is_ldif_that_fits_the_schema(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.ldif"
            ldap_data.write_ldif(path, 1500, 3000, 4)
            text = path.read_bytes()
        entries = list(entries_of(text))
        self.assertEqual(1502, len(entries))
        self.assertEqual(1502, len({dict(entry)["dn"] for entry in entries}))
        for entry in entries[2:]:
            names = {name for name, _ in entry}
            self.assertLessEqual({"cn", "sn", "uid", "msisdn", "imsi", "telcoService", "telcoKey"}, names)
            self.assertEqual(len(entry), len(set(entry)), "a value twice is refused by servers")
        self.assertLessEqual(max(map(len, text.split(b"\n"))), ldap_data.FOLD)


class Rates(unittest.TestCase):
    def test_rates_before_and_after_a_switch(self):
        rate = Rate(size=1000, entries=100)
        rate.at(0, now=1.0)
        rate.at(0, now=10.0)  # waiting does not count as reading
        for second in range(1, 6):
            rate.at(100 * second, now=10.0 + second)
        self.assertEqual(50, rate.done)
        rate.at(900, now=15.4)
        rate.end(now=15.5)
        self.assertAlmostEqual(10, rate.average(0, 0.5))
        self.assertAlmostEqual(100, rate.average(0.6, 1))
        self.assertAlmostEqual(5.5, rate.seconds())
        self.assertEqual(100, rate.done)

    def test_the_time_from_a_switch_to_the_new_rate(self):
        rate = Rate(size=1000, entries=1000)
        rate.at(0, now=0.0)
        # 100/s up to half of the file, then 100/s for another second, then 1000/s.
        for tenth in range(1, 61):
            rate.at(10 * tenth, now=tenth / 10)
        for step in range(1, 41):
            rate.at(600 + 10 * step, now=6 + step / 100)
        self.assertAlmostEqual(1.0, rate.seconds_between(0.5, rate.plateau(0.5, 1000)), delta=0.06)
        self.assertEqual(0.5, rate.plateau(0.5, 100))

    def test_a_rate_that_halves_is_half_kept(self):
        rate = Rate(size=1000, entries=1000)
        rate.at(0, now=0.0)
        rate.at(750, now=1.0)  # half of the way from 0.55 to 0.95
        rate.at(1000, now=1.0 + 250 / 375)
        self.assertAlmostEqual(0.5, rate.kept(0.55))

    def test_what_follows_the_end_changes_nothing(self):
        rate = Rate(size=10, entries=10)
        rate.at(0, now=0.0)
        rate.at(10, now=1.0)
        rate.at(10, now=5.0)
        rate.end(now=6.0)
        self.assertAlmostEqual(10, rate.average(0, 1))


class Servers(unittest.TestCase):
    CONFIG = "\n\n".join([
        "dn: cn=config\nobjectClass: top",
        "dn: ds-cfg-backend-id=userRoot,cn=Backends,cn=config\nds-cfg-backend-id: userRoot\nds-cfg-db-directory: db",
        *(f"dn: ds-cfg-attribute={name},cn=Index,ds-cfg-backend-id=userRoot,cn=Backends,cn=config\n"
          f"ds-cfg-attribute: {name}\nds-cfg-index-type: equality" for name in ("cn", "uid", "entryUUID")),
    ]) + "\n"

    def test_opendj_has_our_indexes_only_and_its_database_elsewhere(self):
        config = ldap_servers.configured(self.CONFIG, Path("/data/db"))
        self.assertIn("ds-cfg-db-directory: /data/db\n", config)
        indexes = re.findall(r"(?m)^ds-cfg-attribute: (\S+)", config)
        self.assertEqual({"entryUUID", "uid", "msisdn"}, set(indexes))
        self.assertEqual(3, len(indexes))

    def test_a_configuration_that_is_not_known_is_refused(self):
        with self.assertRaisesRegex(ldap_servers.Failure, "config.ldif"):
            ldap_servers.configured("dn: cn=config\n", Path("/data/db"))

    def test_opendj_says_how_much_it_took(self):
        line = "Processed 2002 entries, imported 2001, skipped 0, rejected 1 and migrated 0 in 3 seconds (average rate 6.0/sec)"
        self.assertEqual(2001, ldap_servers.OpenDj.imported(ldap_servers.OpenDj.__new__(ldap_servers.OpenDj), line, 2002))


class Driver(unittest.TestCase):
    """Tests the driver as the lab starts it, on directories."""

    def start(self, place, phase, parameters):
        spec = {"protocol": 1, "phase": phase, "parameters": parameters, "seed": 5, "scratch": str(place / "scratch"),
                "paths": {role: str(place / role) for role in ("ldif", "db")}, "cache": str(place / "cache"),
                "tools": str(ldap_servers._default_tools())}
        for role in spec["paths"].values():
            Path(role).mkdir(exist_ok=True)
        driver = subprocess.Popen([LAB / "ldap", "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
        driver.stdin.write(json.dumps(spec))
        driver.stdin.close()
        return driver

    def phase(self, place, phase, parameters):
        with self.start(place, phase, parameters) as driver:
            lines = [json.loads(line) for line in driver.stdout]
            why = driver.stderr.read()
        self.assertEqual(0, driver.returncode, why)
        return lines

    def check(self, parameters):
        with tempfile.TemporaryDirectory() as folder:
            loaded, imported = (self.phase(Path(folder), phase, parameters) for phase in ("load", "import"))
        self.assertIn({"measure": "start"}, imported)
        self.assertIn({"measure": "stop"}, imported)
        last = [line["progress"] for line in imported if "progress" in line][-1]
        self.assertEqual((parameters["entries"],) * 2, (last["done"], last["of"]))
        figures = {line["figure"]["name"]: line["figure"]["value"] for line in loaded + imported if "figure" in line}
        self.assertLess(3, figures["data_gzip6_ratio"])
        for name in ("entries_per_s", "rate_before", "rate_after", "gained"):
            self.assertLess(0, figures[name], name)
        # On a directory, nothing is switched, and the rate stays as it is.
        self.assertLessEqual(0, figures["plateau_s"])
        self.assertLess(0, figures["kept"])

    @unittest.skipUnless(server.find("slapadd"), "slapadd is not installed")
    def test_openldap(self):
        self.check({"server": "openldap", "entries": 20_000, "entry_bytes": 4700, "switch_at": 0.5})

    @unittest.skipIf(any("slapadd" not in line for line in ldap_servers.check()), "OpenDJ or Java is missing")
    def test_opendj(self):
        self.check({"server": "opendj", "entries": 3_000, "entry_bytes": 4700, "switch_at": 0.5, "heap": "512m"})

    @unittest.skipIf(any("slapadd" not in line for line in ldap_servers.check()), "OpenDJ or Java is missing")
    def test_sigterm_ends_the_importer_too(self):
        with tempfile.TemporaryDirectory() as folder:
            place, parameters = Path(folder), {"server": "opendj", "entries": 20_000, "entry_bytes": 4700, "heap": "512m"}
            self.phase(place, "load", parameters)
            with self.start(place, "import", parameters) as driver:
                for line in driver.stdout:
                    if json.loads(line).get("progress", {}).get("done"):
                        break
                self.assertTrue(importers(folder))
                driver.terminate()
                driver.stdout.read()
                driver.wait(timeout=60)
            self.assertEqual(143, driver.returncode)
            self.assertEqual([], importers(folder))


def importers(folder):
    """Returns the processes with the directory in their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in process.read_bytes():
                found.append(int(process.parent.name))
    return found


if __name__ == "__main__":
    unittest.main()
