"""Tests of the track record: its contents and its format."""

import json
import unittest

import publish


def figures(rate, space=1.0):
    return {"rate": rate, "space": space, "written": 1.0, "cpu_ms": 1.0}


def found():
    truth = {"now": figures(100), "fast": figures(120), "slow": figures(80), "wild": figures(50)}
    ours = {"now": figures(10), "fast": figures(12), "slow": figures(9.5), "wild": figures(90)}
    runs = {name: [truth[name], figures(truth[name]["rate"] * (1.5 if name == "wild" else 1.01))] for name in truth}
    return publish.entry("mariadb", runs, truth, ours)


class Entry(unittest.TestCase):
    def test_all_settings_but_todays_are_counted(self):
        entry = found()
        self.assertEqual({key: entry[key] for key in entry if key != "changes"}, {
            "workload": "mariadb", "title": "MariaDB", "system": "mariadb", "runs": 2, "settings": 3, "known": 2,
            "rate_within_ten_points": 1, "largest_rate_error_points": 850.0, "kendall_tau": 0.0, "regret_percent": 30.0,
            "chosen": "wild", "best": "fast"})
        self.assertEqual([c["known"] for c in entry["changes"]], [True, True, False])
        self.assertEqual((entry["changes"][1]["true_percent"], entry["changes"][1]["predicted_percent"]), (-20.0, -5.0))

    def test_the_objective_is_that_of_the_default_goal(self):
        self.assertAlmostEqual(publish.objective(figures(100, 0.5), figures(100)), 0.5 ** 0.3)
        self.assertAlmostEqual(publish.objective(figures(200), figures(100)), 0.5 ** 0.3)


class Record(unittest.TestCase):
    def test_a_line_is_replaced_and_others_stay(self):
        other = {**found(), "workload": "sqlite"}
        first = publish.merged({"workloads": []}, [other, found()])
        second = publish.merged(first, [{**found(), "settings": 7}])
        self.assertEqual([line["workload"] for line in second["workloads"]], ["mariadb", "sqlite"])
        self.assertEqual(second["workloads"][0]["settings"], 7)
        self.assertEqual((second["format"], second["version"]), ("poolwright-track-record", 1))

    def test_the_shipped_record_is_what_would_be_written(self):
        shipped = json.loads(publish.RECORD.read_text())
        self.assertEqual(publish.RECORD.read_text(), publish.text(publish.merged(shipped, [])))

    def test_the_page_has_the_tables_of_the_shipped_record(self):
        page, shipped = publish.PAGE.read_text(), json.loads(publish.RECORD.read_text())
        self.assertEqual(page, publish.with_tables(page, shipped["workloads"]))


class Page(unittest.TestCase):
    def test_only_the_text_between_the_markers_changes(self):
        page = f"before\n{publish.BEGIN}\nold\n{publish.END}\nafter\n"
        text = publish.with_tables(page, [found()])
        self.assertTrue(text.startswith(f"before\n{publish.BEGIN}\n| workload") and text.endswith(f"|\n{publish.END}\nafter\n"))
        self.assertIn("| mariadb | slow | −20.0 | −5.0 | +15.0 |", text)
        self.assertNotIn("old", text)


if __name__ == "__main__":
    unittest.main()
