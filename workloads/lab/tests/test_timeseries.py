"""Tests the generators, files and parsers of the driver `timeseries`, without a server and fio."""

import json
import os
import random
import struct
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import driver  # noqa: E402
from timeseries_parts import aged, capacity, fio, flat, series, steady  # noqa: E402


def spec(**parameters):
    return driver.Spec({"protocol": 1, "phase": "x", "scratch": "/nowhere", "paths": {"data": "/d"}, "seed": 5,
                        "parameters": parameters})


class TheHighestRate(unittest.TestCase):
    def test_it_is_found_from_above_and_from_below(self):
        for limit in (1700.0, 99_000.0, 100_000.0, 101_000.0, 12_345_678.0):
            found = capacity.highest(100_000.0, lambda rate, limit=limit: rate <= limit)
            self.assertLessEqual(found, limit)
            self.assertGreater(found * capacity.CLOSE, limit)

    def test_a_rate_far_below_the_first_one_is_not_searched(self):
        tried = []
        self.assertEqual(0.0, capacity.highest(64.0, lambda rate: tried.append(rate)))
        self.assertEqual([64, 32, 16, 8, 4, 2, 1], tried)

    def test_data_that_is_dropped_is_counted(self):
        load = steady.Load(spec(metrics=64, seconds=100, template_s=1000))
        discard = capacity.Discard(type("Store", (), {"due": lambda _, second, metrics, last: [(0, second, 1)]})())
        load.feed(discard, 0, 50, driver.Progress(None, "points"), None)
        self.assertEqual(50, discard.points)


class TheSeries(unittest.TestCase):
    def test_the_same_seed_gives_the_same_bytes(self):
        one, two, other = (series.Series(random.Random(seed), 1200) for seed in (1, 1, 2))
        self.assertEqual(one.points(70, 100, 500), two.points(70, 100, 500))
        self.assertNotEqual(one.points(70, 100, 500), other.points(70, 100, 500))

    def test_a_stretch_does_not_depend_on_how_it_is_cut(self):
        s = series.Series(random.Random(3), 1200)
        whole = s.points(130, 0, 1200)
        self.assertEqual(len(whole), 1200 * flat.POINT)
        self.assertEqual(b"".join(s.points(130, at, 40) for at in range(0, 1200, 40)), whole)
        self.assertEqual(s.points(130, 1200, 40), s.points(130, 0, 40))

    def test_values_come_at_their_seconds_and_few_are_missing(self):
        for every in (1, 10):
            s = series.Series(random.Random(4), 12_000, every)
            for metric in (0, 1, 64, 200):
                values = flat.unpack(s.points(metric, 0, 12_000))
                there = [i for i, value in enumerate(values) if value is not None]
                self.assertTrue(all(i % every == 0 for i in there))
                self.assertGreater(len(there), 12_000 // every * 0.97)
                self.assertLess(len(there), 12_000 // every)

    def test_the_mix_is_the_tables_and_compresses_as_metrics_do(self):
        self.assertEqual(sum(share for _, share in series.KINDS), 100)
        ratios = []
        for seed in (1, 2, 3):
            s = series.Series(random.Random(seed), 16_000)
            plain = packed = 0
            for metric in range(series.TEMPLATES):
                data = s.points(metric, 0, 16_000)
                plain, packed = plain + len(data), packed + len(zlib.compress(data, 6))
            ratios.append(plain / packed)
        # Integers of 8 bytes are mostly zeros; and the seeds differ little.
        self.assertGreater(min(ratios), 5)
        self.assertLess(max(ratios) / min(ratios), 1.3)


class TheFlatFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def test_points_are_type_and_big_endian_value(self):
        self.assertEqual(bytes(flat.pack([1, -2, None])), bytes.fromhex("0100000000000001 01fffffffffffffe 0000000000000000"))
        values = [0, 5, None, -7, (1 << 55) - 1, -(1 << 55)]
        self.assertEqual(flat.unpack(flat.pack(values)), values)

    def test_files_are_laid_out_as_mstore_reads_them(self):
        store = flat.Store(self.root, points_per_file=1000, partitions=1)
        store.write(0, 2990, bytes(flat.pack(range(20))))
        store.write(7, 3000, bytes(flat.pack([42])))
        store.close()
        base = os.path.join(self.root, "metrics", "0")
        self.assertEqual(sorted(os.listdir(base)), sorted(f"{o}.{e}" for o in (2000, 3000) for e in ("mstore", "idx", "bitmap")))
        index = Path(base, "3000.idx").read_bytes()
        self.assertEqual(struct.unpack(">qq", index[:16]), (3000, 1000))
        names = [flat.Store.name(0), flat.Store.name(7)]
        self.assertEqual(index[16:], b"".join(len(n).to_bytes(2, "big") + n for n in names))
        data = Path(base, "3000.mstore").read_bytes()
        self.assertEqual(flat.unpack(data[:80]), list(range(10, 20)))
        self.assertEqual(data[1000 * 8:], bytes(flat.pack([42])))
        bitmap = Path(base, "2000.bitmap").read_bytes()
        self.assertEqual(struct.unpack(">Q", bitmap[:8]), (1000,))
        self.assertEqual(int.from_bytes(bitmap[8:], "little"), ((1 << 10) - 1) << 990)

    def test_what_is_written_is_read_whatever_the_order(self):
        draw, seconds = random.Random(6), 3600
        source = series.Series(draw, 1200)
        store = flat.Store(self.root, points_per_file=700, partitions=3)
        pieces = [(m, at) for m in range(10) for at in range(0, seconds, 90)]
        draw.shuffle(pieces)
        for metric, at in pieces:
            store.write(metric, at, source.points(metric, at, 90))
        store.close()
        for metric in range(10):
            wanted = [v for at in range(0, seconds, 90) for v in flat.unpack(source.points(metric, at, 90))]
            self.assertEqual(flat.unpack(store.read(metric, 0, seconds)), wanted)
        self.assertEqual(store.read(3, seconds * 2, 5), bytes(5 * flat.POINT))
        store.close()
        bits = 0
        for path in Path(self.root).glob("metrics/*/*.bitmap"):
            data, size = path.read_bytes(), 8 + -(-700 // 8)
            bits += sum(int.from_bytes(data[at + 8:at + size], "little").bit_count() for at in range(0, len(data), size))
        there = sum(v is not None for m in range(10) for at in range(0, seconds, 90)
                    for v in flat.unpack(source.points(m, at, 90)))
        self.assertEqual(bits, there)

    def test_a_store_is_handed_each_second_of_each_metric_once(self):
        store = steady.Flat.__new__(steady.Flat)
        store._cache = 120
        for due in (store.due, steady.Victoria.due.__get__(store)):
            seen = {}
            for second in range(500):
                for metric, first, count in due(second, 7, second == 499):
                    self.assertEqual(seen.get(metric, 0), first)
                    seen[metric] = first + count
            self.assertEqual(seen, {metric: 500 for metric in range(7)})


class Fio(unittest.TestCase):
    def test_the_command_is_the_reports(self):
        words = fio.command(spec(size="4G"))
        for word in ("--randrepeat=1 --ioengine=libaio --gtod_reduce=1 --name=test --filename=/d/test --bs=4k "
                     "--iodepth=64 --size=4G --readwrite=randrw --rwmixread=75").split():
            self.assertIn(word, words)
        words = fio.command(spec(size="1M", fio_direct=1, fio_rwmixread=""))
        self.assertIn("--direct=1", words)
        self.assertFalse([word for word in words if word.startswith("--rwmixread")])

    def test_its_reports_are_read_in_pieces(self):
        side = {"total_ios": 75, "iops": 7.5, "runtime": 10_000}
        report = {"jobs": [{"error": 0, "read": side, "write": {**side, "total_ios": 25, "iops": 2.5}}]}
        text = "fio: a note\n" + json.dumps(report, indent=2) + "\n" + json.dumps(report)
        found, rest = fio.objects(text[:-7])
        self.assertEqual(len(found), 1)
        found, rest = fio.objects(rest + text[-7:])
        self.assertEqual((len(found), rest), (1, ""))
        self.assertEqual(fio.figures(found[0]), {"operations": 100, "read_iops": 7.5, "write_iops": 2.5, "seconds": 10})
        report["jobs"][0]["error"] = 5
        with self.assertRaises(driver.Failure):
            fio.figures(report)


class Aging(unittest.TestCase):
    def test_room(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(aged.room(folder, 0), 0)
            wanted = aged.room(folder, 98)
            self.assertEqual(wanted % aged.STEP, 0)
            self.assertLessEqual(aged.room(folder, 50), wanted)
            path = os.path.join(folder, "f")
            fd = os.open(path, os.O_RDWR | os.O_CREAT)
            os.write(fd, b"x" * (1 << 20))
            aged.punch(fd, 1 << 18, 1 << 19)
            self.assertEqual(os.pread(fd, 1 << 20, 0), b"x" * (1 << 18) + bytes(1 << 19) + b"x" * (1 << 18))
            os.close(fd)

    def test_sizes(self):
        self.assertEqual([driver.size(t) for t in ("4k", "1.5G", 7, "2MiB", "0")], [4096, 3 << 29, 7, 2 << 20, 0])
        for bad in ("", "K", "4x"):
            with self.assertRaises(driver.Failure):
                driver.size(bad)


if __name__ == "__main__":
    unittest.main()
