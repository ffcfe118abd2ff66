"""Tests of the statistics of compare.py against values computed by hand."""

import math
import unittest

import compare


def blocks(rates, written=1000.0, space=1e6):
    return {n: {"rate": rate, "written": written, "space": space} for n, rate in enumerate(rates)}


class Kendall(unittest.TestCase):
    def test_the_same_order_and_the_opposite(self):
        self.assertEqual(compare.kendall([(1, 10), (2, 20), (3, 30)]), 1)
        self.assertEqual(compare.kendall([(1, 30), (2, 20), (3, 10)]), -1)

    def test_one_pair_of_six_is_swapped(self):
        # Five pairs agree, one does not: (5 - 1) / 6.
        self.assertAlmostEqual(compare.kendall([(1, 1), (2, 3), (3, 2), (4, 4)]), 4 / 6)

    def test_ties(self):
        # x = 1 2 2 3, y = 1 2 3 3: one of the six pairs is tied in x, one in y, the other four agree:
        # 4 / sqrt((6 - 1) (6 - 1)).
        self.assertAlmostEqual(compare.kendall([(1, 1), (2, 2), (2, 3), (3, 3)]), 4 / 5)
        # x = 1 1 1 2, y = 1 2 3 4: three ties in x, the other three agree: 3 / sqrt(3 · 6).
        self.assertAlmostEqual(compare.kendall([(1, 1), (1, 2), (1, 3), (2, 4)]), 3 / math.sqrt(18))
        # x = 1 1 2, y = 1 1 2: a pair tied in both counts as tied in each: 2 / sqrt(2 · 2).
        self.assertAlmostEqual(compare.kendall([(1, 1), (1, 1), (2, 2)]), 1)

    def test_nothing_to_rank(self):
        self.assertIsNone(compare.kendall([(1, 1), (1, 2)]))
        self.assertIsNone(compare.kendall([(1, 1)]))
        self.assertIsNone(compare.kendall([]))


class Rounds(unittest.TestCase):
    def test_a_host_that_becomes_slower_changes_no_ratio(self):
        rounds = [{"today": {"rate": 100.0, compare.OTHERS: 1.0}, "new": {"rate": 80.0, compare.OTHERS: 9.0}},
                  {"today": {"rate": 25.0}, "new": {"rate": 20.0}}]
        found = compare.steadied(rounds, "today")
        self.assertAlmostEqual(found["new"]["rate"] / found["today"]["rate"], 0.8)
        self.assertAlmostEqual(found["today"]["rate"], 50)
        self.assertEqual(found["new"][compare.OTHERS], 9)

    def test_the_mean_of_ratios_and_a_setting_that_failed_once(self):
        rounds = [{"today": {"rate": 100.0}, "new": {"rate": 200.0}, "full": {}},
                  {"today": {"rate": 100.0}, "new": {"rate": 50.0}, "full": {"rate": 90.0}}]
        found = compare.steadied(rounds, "today")
        self.assertAlmostEqual(found["new"]["rate"], 100)
        self.assertAlmostEqual(found["full"]["rate"], 90)

    def test_no_prediction_of_today(self):
        self.assertEqual(compare.steadied([{"today": {}, "new": {"rate": 1.0}}], "today"), {})


class Intervals(unittest.TestCase):
    def test_the_interval_of_three_values(self):
        # Logarithms -a, 0, a: mean 0, standard deviation a; half the interval is 4.303 a / sqrt(3).
        a = math.log(1.01)
        middle, (low, high) = compare.geometric([1 / 1.01, 1, 1.01])
        self.assertAlmostEqual(middle, 1)
        self.assertAlmostEqual(math.log(high), 4.303 * a / math.sqrt(3))
        self.assertAlmostEqual(math.log(low), -4.303 * a / math.sqrt(3))

    def test_equal_values_are_known_exactly_and_one_is_not_known(self):
        self.assertAlmostEqual(compare.uncertainty([5, 5, 5]), 0)
        self.assertEqual(compare.geometric([7])[1], None)
        self.assertIsNone(compare.uncertainty([7]))

    def test_between_the_rows_of_the_table_the_wider_quantile_is_used(self):
        self.assertEqual(compare.t975(2), 4.303)
        self.assertEqual(compare.t975(24), compare.t975(20))
        self.assertEqual(compare.t975(1000), 1.980)

    def test_a_rate_is_known_within_the_bound(self):
        # 2.484 times ±1 % is ±2.5 %; ±2 % is ±5 %.
        today = blocks([100, 100, 100])
        self.assertTrue(compare.true_of(blocks([99, 100, 101]), today)["known"])
        self.assertFalse(compare.true_of(blocks([98, 100, 102]), today)["known"])
        self.assertTrue(compare.true_of(blocks([98, 100, 102]), today, within=0.06)["known"])
        self.assertFalse(compare.true_of(blocks([100]), today)["known"])

    def test_changes_are_paired_by_block(self):
        # Each block is faster than the one before, but the setting is 10 % faster than today's in all.
        found = compare.true_of(blocks([110, 220, 330]), blocks([100, 200, 300]))
        self.assertAlmostEqual(found["change"]["rate"]["ratio"], 1.1)
        self.assertAlmostEqual(found["change"]["rate"]["ci95"][0], 1.1)
        self.assertTrue(found["known"], "an influence on a whole block cancels out")
        self.assertFalse(compare.true_of(blocks([110, 200, 330]), blocks([100, 200, 300]))["known"])
        # A block that only one setting has is ignored.
        found = compare.true_of({0: {"rate": 110}, 7: {"rate": 1}}, {0: {"rate": 100}, 1: {"rate": 5}})
        self.assertAlmostEqual(found["change"]["rate"]["ratio"], 1.1)


class Objective(unittest.TestCase):
    def test_weights(self):
        today = {"rate": 100, "written": 1000, "space": 1e6}
        self.assertAlmostEqual(compare.objective(today, today), 1)
        better = {"rate": 200, "written": 500, "space": 0.5e6}
        self.assertAlmostEqual(compare.objective(better, today), 0.5)
        faster = {"rate": 200, "written": 1000, "space": 1e6}
        self.assertAlmostEqual(compare.objective(faster, today), 0.5 ** 0.4)

    def test_missing_and_zero_metrics_are_ignored(self):
        today = {"rate": 100, "written": 0, "space": 1e6}
        of = {"rate": 200, "written": 10, "space": 1e6}
        self.assertAlmostEqual(compare.objective(of, today), 0.5 ** (0.4 / 0.7))
        self.assertIsNone(compare.objective({}, today))


class Steadied(unittest.TestCase):
    def test_a_setting_without_a_prediction_is_left_out(self):
        rounds = [{"now": {"rate": 100.0}, "failed": {}, "fast": {"rate": 150.0}}] * 2
        self.assertEqual(sorted(compare.steadied(rounds, "now")), ["fast", "now"])


class Compare(unittest.TestCase):
    truth = {"now": blocks([100, 100, 100]), "fast": blocks([120, 120, 120]), "slow": blocks([80, 80, 80]),
             "wild": blocks([50, 100, 200])}

    def test_a_prediction_that_is_right(self):
        predicted = {name: {"rate": rate * 7, "written": 1.0, "space": 5.0}
                     for name, rate in (("now", 100), ("fast", 120), ("slow", 80), ("wild", 100))}
        found = compare.compare(self.truth, predicted, "now", "fast")
        self.assertEqual(found["not_known"], ["wild"])
        self.assertEqual((found["compared"], found["kendall_tau"]), (3, 1))
        self.assertEqual(found["all"]["compared"], 4)
        self.assertAlmostEqual(found["regret_percent"], 0)
        self.assertAlmostEqual(found["largest_rate_error_points"]["points"], 0)
        self.assertEqual(found["signs"]["rate"], {"agree": 2, "of": 2})

    def test_a_prediction_that_is_wrong(self):
        predicted = {name: {"rate": rate, "written": 1.0, "space": 5.0}
                     for name, rate in (("now", 100), ("fast", 90), ("slow", 110))}
        found = compare.compare(self.truth, predicted, "now", "slow")
        self.assertEqual(found["kendall_tau"], -1)
        self.assertEqual(found["signs"]["rate"], {"agree": 0, "of": 2})
        self.assertEqual(found["signs"]["objective"], {"agree": 0, "of": 2})
        self.assertAlmostEqual(found["largest_rate_error_points"]["points"], 30)
        # (1/0.8)^0.4 over (1/1.2)^0.4.
        self.assertAlmostEqual(found["regret_percent"], 100 * (1.5 ** 0.4 - 1))
        errors = {s["setting"]: s.get("error_points", {}).get("rate") for s in found["settings"]}
        self.assertAlmostEqual(errors["fast"], -30)
        self.assertIsNone(errors["wild"])

    def test_the_order_counts_pairs_with_a_significant_true_difference(self):
        truth = {"now": blocks([100, 100, 100]), "fast": blocks([119, 120, 121]), "same": blocks([95, 100, 105]),
                 "slow": blocks([79, 80, 81])}
        predicted = {name: {"rate": rate, "written": 1.0, "space": 5.0}
                     for name, rate in (("now", 100), ("fast", 120), ("same", 70), ("slow", 80))}
        found = compare.compare(truth, predicted, "now")
        # Of the six pairs, now and same do not differ significantly; same and slow are predicted in the wrong order.
        self.assertEqual(found["order"], {"agree": 4, "of": 5})
        # The prediction of `same`, -30 %, is outside the interval around 0 %.
        self.assertEqual(found["in_interval"], {"agree": 2, "of": 3})
        self.assertIn("(95 %): 4 of 5", compare.table("T", found))
        once = compare.compare({name: {0: of[0]} for name, of in truth.items()}, predicted, "now")
        self.assertEqual((once["order"]["of"], once["in_interval"]["of"]), (0, 0))

    def test_unknown_settings_are_not_counted(self):
        found = compare.compare(self.truth, {"now": {"rate": 1.0}}, "now", "wild")
        self.assertIsNone(found["regret_percent"])
        self.assertIsNone(found["kendall_tau"])
        self.assertIsNone(found["largest_rate_error_points"])

    def test_both_objectives_use_the_predicted_metrics(self):
        truth = {"now": blocks([100, 100], written=1.0), "other": blocks([200, 200], written=9.0)}
        predicted = {"now": {"rate": 1.0, "written": 0, "space": 1.0}, "other": {"rate": 2.0, "written": 0, "space": 1.0}}
        found = compare.compare(truth, predicted, "now", "other")
        self.assertEqual(sorted(found["weights"]), ["space", "time"])
        other = found["settings"][1]
        self.assertAlmostEqual(other["truth"]["objective"], 0.5 ** (0.4 / 0.7))
        self.assertAlmostEqual(other["predicted"]["objective"], 0.5 ** (0.4 / 0.7))

    def test_disturbed_trials_can_be_kept(self):
        truth = {"now": {0: {"rate": 1.0}}, "fast": {0: {"rate": 2.0, compare.OTHERS: 50.0}}}
        found = compare.compare(truth, {"now": {"rate": 1.0}, "fast": {"rate": 2.0}}, "now", keep_disturbed=True)
        self.assertEqual([s["setting"] for s in found["settings"]], ["now", "fast"])
        self.assertEqual((found["left_out"], found["disturbed"]), ([], ["fast block 0: 50 %"]))

    def test_disturbed_trials_are_left_out_and_listed(self):
        truth = {"now": {0: {"rate": 1.0, compare.OTHERS: 2.0}, 1: {"rate": 0.1, compare.OTHERS: 40.0}}, "fast": blocks([2, 2]),
                 "never": {0: {"rate": 9.0, compare.OTHERS: 50.0}}}
        found = compare.compare(truth, {"now": {"rate": 1.0}, "fast": {"rate": 2.0, compare.OTHERS: 9.0}}, "now")
        self.assertEqual(found["left_out"], ["now block 1: 40 %", "never block 0: 50 %"])
        self.assertEqual(found["disturbed"], ["fast: 9 %"])
        for text in ("- trials left out, ", "- DISTURBED, "):
            self.assertIn(text, compare.table("T", found))
        self.assertEqual([s["setting"] for s in found["settings"]], ["now", "fast"])
        self.assertAlmostEqual(found["settings"][1]["truth"]["change"]["rate"]["ratio"], 2)
        # CPU use of other processes is not a change relative to today's setting.
        self.assertNotIn(compare.OTHERS, found["settings"][0]["truth"]["change"])
        self.assertEqual(compare.compare(self.truth, {}, "now")["disturbed"], [])

    def test_nothing_is_left_out_if_all_of_todays_trials_are_disturbed(self):
        truth = {"now": {0: {"rate": 1.0, compare.OTHERS: 30.0}}, "fast": {0: {"rate": 2.0, compare.OTHERS: 1.0}}}
        found = compare.compare(truth, {}, "now")
        self.assertEqual(found["settings"][0]["truth"]["blocks"], 1)
        self.assertEqual((found["left_out"], found["disturbed"]), ([], ["now block 0: 30 %"]))

    def test_agreement_counts_clear_differences_known_or_not(self):
        truth = {"now": blocks([100]), "fast": blocks([130]), "faster": blocks([150]), "same": blocks([101])}
        predicted = {name: {"rate": rate} for name, rate in (("now", 1.0), ("fast", 1.6), ("faster", 1.5), ("same", 0.9))}
        found = compare.agreement(compare.compare(truth, predicted, "now"))
        self.assertEqual(found["signs"], {"agree": 2, "of": 2})
        # Of the six pairs, now and same are too close, and fast and faster are predicted in the wrong order.
        self.assertEqual(found["order"], {"agree": 4, "of": 5})
        self.assertEqual(compare.agreement(compare.compare(truth, {}, "now"))["order"], {"agree": 0, "of": 0})

    def test_the_plans_figures_are_compared_with_the_truth(self):
        truth = {"now": blocks([100, 100, 100]), "fast": blocks([118, 120, 122], written=500.0)}
        plan = {"verdict": "change", "gain": {"work_rate": {"change": 0.15, "ci95": [0.1, 0.19]},
                                              "write_amplification": {"change": -0.2, "ci95": [-0.25, -0.15]},
                                              "objective": {"change": -0.3, "ci95": [-0.4, -0.2]}}}
        found = compare.compare(truth, {}, "now", "fast", plan=plan)
        rate, written = found["claims"]
        # 20 % is outside 10 to 19 %, but its own interval is 15 to 25 %.
        self.assertEqual((rate["metric"], rate["holds"], rate["overlaps"]), ("work_rate", False, True))
        self.assertEqual((written["metric"], written["holds"], written["overlaps"]), ("write_amplification", False, False))
        self.assertIn("change of work rate: +15.0 [+10.0, +19.0] %; true +20.0 %", compare.table("T", found))
        self.assertIsNone(found["keep_is_right"])

    def test_keeping_is_right_if_no_setting_is_better(self):
        keep = {"verdict": "keep", "gain": {}}
        same = {"now": blocks([100, 100]), "same": blocks([104, 104]), "slow": blocks([50, 50])}
        self.assertTrue(compare.compare(same, {}, "now", "now", plan=keep)["keep_is_right"])
        found = compare.compare({**same, "fast": blocks([130, 130])}, {}, "now", "now", plan=keep)
        self.assertFalse(found["keep_is_right"])
        self.assertIn("today's settings: WRONG", compare.table("T", found))

    def test_the_table_names_each_setting_once(self):
        found = compare.compare(self.truth, {"now": {"rate": 1.0, "written": 1.0, "space": 1.0}}, "now", "fast")
        text = compare.table("A title", found)
        for name in self.truth:
            self.assertEqual(sum(line.startswith(f"| {name} |") for line in text.splitlines()), 1, text)
        self.assertIn("not known", text)


if __name__ == "__main__":
    unittest.main()
