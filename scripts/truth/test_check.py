"""Tests of the short form: its settings, and the line that it prints."""

import unittest

import check
import compare
from campaign import Workload
from run import CAMPAIGN


class Settings(unittest.TestCase):
    def test_todays_comes_first(self):
        workload = Workload(CAMPAIGN, "sqlite", "full")
        today = workload.today
        workload.keep(check.SETTINGS)
        self.assertEqual(list(workload.settings), list(check.SETTINGS))
        self.assertEqual(workload.today, today)

    def test_all_workloads_are_checked_by_default(self):
        self.assertIn("sqlite", check.workloads())
        self.assertIn("kv-a", check.workloads())


    def test_options_override_those_of_the_short_form(self):
        options = check.options_of("sqlite", ["--seconds", "2", "--out", "/x"])
        self.assertEqual((options.seconds, options.blocks, str(options.out)), (2.0, 1, "/x/sqlite"))
        self.assertIn("--application", options.replay_options)


class Line(unittest.TestCase):
    @staticmethod
    def found(true, predicted):
        truth = {name: {0: {"rate": rate}} for name, rate in zip(check.SETTINGS, true)}
        return compare.compare(truth, {n: {"rate": r} for n, r in zip(check.SETTINGS, predicted)}, check.SETTINGS[0])

    def test_agreement(self):
        printed = check.line("sqlite", self.found((100, 80, 50), (10, 7, 6)))
        self.assertEqual(printed, "sqlite: work rate against 128K lz4: 128K zstd-3 -20 % (predicted -30 %), 1M lz4 -50 % "
                               "(predicted -40 %); signs agree, order agree")

    def test_disagreement_and_no_difference(self):
        self.assertIn("signs DISAGREE in 1 of 2, order DISAGREE in 1 of 3", check.line("x", self.found((100, 80, 50), (10, 11, 6))))
        self.assertIn("signs not compared (no difference above 5 %)", check.line("x", self.found((100, 101, 99), (10, 10, 10))))


if __name__ == "__main__":
    unittest.main()
