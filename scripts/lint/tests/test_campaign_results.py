"""The results of campaigns in the documentation."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab"))

import docs  # noqa: E402

CLAIM = {"study": "copy", "text": "a|b: is faster", "source": "table 1", "verdict": "agrees",
         "line": "agrees: a|b: is faster – here 200 ms (a) against 400 ms (b), 0.50x (0.40x to 0.60x); the original 1.30 s against 11.1 s, 0.12x"}
BOUND = {**CLAIM, "verdict": "unclear", "line": "too close to tell: a|b: is faster – here 200 ms, wanted at most 300 ms, 0.50x"}
NONE = {"study": "copy", "text": "t", "verdict": "not-measured", "line": "not measured: t"}
RESULTS = {"started": "2026-01-02T03:04:05Z", "commit": "abc", "scale": "small", "trials": 9, "failed": 0, "machine": {"cores": "2"},
           "claims": [CLAIM, BOUND, NONE]}


class Page(unittest.TestCase):
    def test_the_table_is_replaced_and_the_rest_stays(self):
        first = docs.with_table("# A page\n\nText.\n", RESULTS)
        self.assertTrue(first.startswith("# A page\n\nText.\n\n## Statements\n"))
        self.assertEqual(docs.with_table(first, RESULTS), first)
        other = docs.with_table(first + "\nMore.\n", {**RESULTS, "trials": 10})
        self.assertTrue("10 trials" in other and "9 trials" not in other and other.endswith("\nMore.\n"))

    def test_a_row_has_both_figures_and_the_interval(self):
        lines = docs.table(RESULTS).splitlines()
        self.assertIn("**1 of 3 statements are decided**: agrees: 1, too close to tell: 1, not measured: 1.", lines[0])
        self.assertEqual(lines[4], "| copy: a\\|b: is faster | table 1 | 1.30 s against 11.1 s, 0.12x "
                                   "| 200 ms (a) against 400 ms (b), 0.50x (0.40x to 0.60x) | agrees |")
        self.assertIn("| table 1 |  | 200 ms, wanted at most 300 ms, 0.50x | too close to tell |", lines[5])
        self.assertEqual(lines[6], "| copy: t |  |  |  | not measured |")

    def test_a_claim_that_changed_after_the_run_is_not_measured(self):
        claims = [{"text": CLAIM["text"], "source": "table 1"}, {"text": "a|b: is much faster", "source": "table 1"}]
        studies = [{"name": "copy", "claim": claims}, {"name": "other", "on_request": True, "claim": [{"text": "never"}]},
                   {"name": "large", "scales": ["full"], "claim": [{"text": "neither"}]}]
        found = docs.claims_of({"study": studies}, {**RESULTS, "claims": [CLAIM]})
        self.assertEqual([claim["verdict"] for claim in found], ["agrees", "not-measured"])
        self.assertIn("| copy: a\\|b: is much faster | table 1 |  |  | not measured |", docs.table({**RESULTS, "claims": found}))


if __name__ == "__main__":
    unittest.main()
