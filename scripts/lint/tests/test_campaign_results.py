"""The results of campaigns in the documentation."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab"))

import docs  # noqa: E402

CLAIM = {"study": "copy", "text": "a|b is faster", "source": "table 1", "measure": "wall_s", "unit": "s", "lower": True,
         "original": [1.3, 11.1], "ours": [0.2, 0.4], "ratio": 0.5, "ci95": [0.4, 0.6], "verdict": "agrees"}
RESULTS = {"started": "2026-01-02T03:04:05Z", "commit": "abc", "scale": "small", "trials": 9, "failed": 0, "machine": {"cores": "2"},
           "claims": [CLAIM, {**CLAIM, "verdict": "unclear", "least": 0.3, "original": [1.3, 0.3]}]}


class Page(unittest.TestCase):
    def test_the_table_is_replaced_and_the_rest_stays(self):
        first = docs.with_table("# A page\n\nText.\n", RESULTS)
        self.assertTrue(first.startswith("# A page\n\nText.\n\n## Statements\n"))
        self.assertEqual(docs.with_table(first, RESULTS), first)
        other = docs.with_table(first + "\nMore.\n", {**RESULTS, "trials": 10})
        self.assertTrue("10 trials" in other and "9 trials" not in other and other.endswith("\nMore.\n"))

    def test_a_row_has_both_figures_and_the_interval(self):
        lines = docs.table(RESULTS).splitlines()
        self.assertIn("**1 of 2 statements are decided**: agrees: 1, too close to tell: 1.", lines[0])
        self.assertEqual(lines[4], "| copy: a\\|b is faster | table 1 | 1.3 s against 11.1 s | 200 ms against 400 ms; 0.5x (0.4–0.6) | agrees |")
        self.assertIn("| 1.3 s | 200 ms; at most 300 ms: 0.5x (0.4–0.6) |", lines[5])

    def test_figures_have_their_units(self):
        shown = [docs.figure({"unit": unit}, value) for unit, value in
                 [("bytes", 3 << 20), ("bytes/s", 2048), ("ns", 1500), ("s", 0), ("percent", 96.3), ("ratio", 2.5), ("1/s", 12345)]]
        self.assertEqual(shown, ["3M", "2K/s", "1.5 µs", "0 ns", "96.3 %", "2.5x", "12,345/s"])


if __name__ == "__main__":
    unittest.main()
