"""Tests of the track record: its contents and its format."""

import json
import tomllib
import unittest

import compare
import publish
import run


def found(workload="mariadb", **parameters):
    truth = {name: {n: {"rate": rate, "space": 1.0} for n in range(3)}
             for name, rate in (("now", 100), ("fast", 120), ("slow", 80), ("off", 90))}
    truth["wild"] = {0: {"rate": 1}, 1: {"rate": 100}}
    predicted = {name: {"rate": rate, "space": 1.0} for name, rate in
                 (("now", 10), ("fast", 12), ("slow", 9.5), ("off", 9.1), ("wild", 90))}
    return {"workload": workload, "title": f"Title of {workload}: and more", "parameters": {"workload": workload, **parameters},
            **compare.compare(truth, predicted, "now", "fast")}


class Entry(unittest.TestCase):
    def test_all_settings_but_todays_are_counted(self):
        entry = publish.entry(found())
        self.assertEqual({key: entry[key] for key in entry if key not in ("recommended", "changes")}, {
            "workload": "mariadb", "title": "Title of mariadb", "system": "mariadb", "settings": 4, "known": 3,
            "rate_within_ten_points": 2, "rate_in_interval": 2, "blocks": 3, "pairs": {"agree": 5, "of": 6}, "largest_rate_error_points": 890.0, "kendall_tau": 0.0, "regret_percent": 0.0})

    def test_all_settings_are_listed_known_or_not(self):
        entry = publish.entry(found())
        self.assertEqual([c["setting"] for c in entry["changes"]], ["fast", "slow", "off", "wild"])
        self.assertEqual([c["known"] for c in entry["changes"]], [True, True, True, False])
        self.assertEqual((entry["changes"][1]["true_percent"], entry["changes"][1]["predicted_percent"]), (-20.0, -5.0))
        self.assertEqual(entry["recommended"]["setting"], "fast")
        self.assertLessEqual(entry["recommended"]["best_objective"], entry["recommended"]["true_objective"])

    def test_a_store_is_named_by_its_engine(self):
        self.assertEqual(publish.entry(found("kv", engine="rocksdb"))["system"], "rocksdb")

    def test_every_workload_has_a_system(self):
        for study in tomllib.loads(run.CAMPAIGN.read_text())["study"]:
            parameters = study["parameters"]
            self.assertTrue(publish.SYSTEMS.get(parameters["workload"]) or parameters["engine"], study["name"])

    def test_an_incomplete_comparison_is_not_published(self):
        for unsure in ({"kendall_tau": None}, {"regret_percent": None}, {"largest_rate_error_points": None}):
            with self.assertRaises(SystemExit):
                publish.entry({**found(), "all": {**found()["all"], **unsure}})


class Record(unittest.TestCase):
    def test_a_line_is_replaced_and_others_stay(self):
        first = publish.merged({"workloads": []}, [publish.entry(found()), publish.entry(found("kv", engine="rocksdb"))])
        changed = {**publish.entry(found()), "settings": 7}
        second = publish.merged(first, [changed])
        self.assertEqual([line["workload"] for line in second["workloads"]], ["kv", "mariadb"])
        self.assertEqual(second["workloads"][1]["settings"], 7)
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
        text = publish.with_tables(page, [publish.entry(found())])
        self.assertTrue(text.startswith(f"before\n{publish.BEGIN}\n| workload") and text.endswith(f"|\n{publish.END}\nafter\n"))
        self.assertIn("| mariadb | slow | −20.0 (−20.0 to −20.0) | −5.0 | +15.0 |  |", text)
        self.assertIn("| mariadb | wild |", text)
        self.assertNotIn("old", text)


if __name__ == "__main__":
    unittest.main()
