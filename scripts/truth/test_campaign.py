"""Tests of the campaign of one workload, and of reading replays, plans and reports."""

import tomllib
import unittest
from pathlib import Path

import run
from campaign import Workload


def workload(name="mariadb"):
    return Workload(run.CAMPAIGN, name, "full")


class Campaign(unittest.TestCase):
    def test_every_workload_has_nine_settings_of_the_data_and_today_first(self):
        for study in tomllib.loads(run.CAMPAIGN.read_text())["study"]:
            of = workload(study["name"])
            self.assertEqual((len(of.settings), of.today), (9, "128K lz4"), study["name"])
            self.assertIn("data", of.roles)
            for properties in of.settings.values():
                self.assertEqual(sorted(properties), ["compression", "recordsize"])

    def test_a_recommendation_is_found_or_added(self):
        of = workload()
        self.assertEqual(of.name_of({}), "128K lz4")
        self.assertEqual(of.name_of({"compression": "on"}), "128K lz4")
        self.assertEqual(of.name_of({"recordsize": "16K", "compression": "zstd-1"}), "16K zstd-1")
        self.assertEqual(len(of.settings), 9)
        self.assertEqual(of.name_of({"recordsize": "8K", "logbias": "throughput"}), "8K lz4 logbias=throughput")
        self.assertEqual(of.settings["8K lz4 logbias=throughput"],
                         {"recordsize": "8K", "compression": "lz4", "logbias": "throughput"})

    def test_another_device_is_that_of_the_pools(self):
        of = workload()
        of.on_device("hdd")
        self.assertEqual(of.pool["device"], "hdd")
        self.assertEqual(tomllib.loads(of.text("truth-x", {}))["pool"]["device"], "hdd")

    def test_the_text_is_the_campaign_with_one_study(self):
        of = workload()
        read = tomllib.loads(of.text("truth-x", {"seconds": 5.0}))
        shipped = tomllib.loads(Path(run.CAMPAIGN).read_text())
        self.assertEqual((read["name"], len(read["study"])), ("truth-x", 1))
        self.assertEqual(read["pool"], shipped["pool"])
        for key in ("factor", "phase", "measures"):
            self.assertEqual(read["study"][0][key], shipped[key])
            self.assertNotIn(key, read)
        self.assertEqual(read["study"][0]["scale"]["full"]["seconds"], 5.0)


class Readings(unittest.TestCase):
    trial = {"ops": 100, "ops_per_second": 50.0, "mean_latency_ns": 1e6, "allocated_bytes": 30,
             "allocated_by_role": {"data": 10, "wal": 15, "other": 5}, "vdev": {"write_bytes": 400, "read_bytes": 0}}

    def test_a_replay(self):
        found = run.prediction(self.trial, separate_log=True)
        self.assertEqual((found["rate"], found["written"], found["space"], found["space_all"]), (50.0, 4.0, 15, 30))
        self.assertEqual(run.prediction(self.trial, separate_log=False)["space"], 30)
        self.assertNotIn("engine_cpu", found)
        burned = {**self.trial, "cpu_seconds": 5.0, "application_cpu_seconds": 3.0}
        self.assertAlmostEqual(run.prediction(burned, separate_log=True)["engine_cpu"], 0.02)
        several = {"runs": [self.trial, {**self.trial, "ops_per_second": 70.0, "work_rate": 60.0}]}
        self.assertEqual(run.prediction(several, separate_log=True)["rate"], 55.0)

    def test_the_blocks_of_a_report(self):
        text = """study,setting,block,phase,measure,value,unit
mariadb,16K lz4,1,place,wall_s,9,s
mariadb,16K lz4,1,load,work_per_s,100,1/s
mariadb,16K lz4,1,load,wall_s,2,s
mariadb,16K lz4,1,load,vdev_write_bytes,5000,bytes
mariadb,16K lz4,1,load,vdev_read_bytes,0,bytes
mariadb,16K lz4,1,load,allocated.data,77,bytes
"""
        self.assertEqual(run.blocks_of(text), {"16K lz4": {1: {"rate": 100.0, "written": 25.0, "read": 0.0, "space": 77.0}}})

    def test_what_others_used_of_the_cpus(self):
        cpus = run.os.cpu_count()
        measures = {"work_per_s": 10.0, "wall_s": 2.0, "host_cpu": 80.0, "user_s": 0.2 * cpus, "system_s": 0.1 * cpus,
                    "engine_s": 0.7 * cpus}
        self.assertAlmostEqual(run._metrics(measures)["others_cpu"], 30.0)
        self.assertEqual(run._metrics({**measures, "host_cpu": 40.0})["others_cpu"], 0.0)
        self.assertNotIn("others_cpu", run._metrics({"work_per_s": 10.0, "wall_s": 2.0}))
        self.assertEqual(run.prediction({**self.trial, "others_cpu": 3.0}, separate_log=True)["others_cpu"], 3.0)

    def test_the_cpu_time_of_children_is_their_own(self):
        found = {}
        with run.watched(found):
            run.subprocess.run([run.sys.executable, "-c", "sum(range(10**6))"], check=True)
        self.assertGreaterEqual(found["others_cpu"], 0.0)
        self.assertLessEqual(found["others_cpu"], 100.0)

    def test_the_recommendation_is_that_of_the_dataset_data(self):
        def role(name, at, **recommended):
            return {"role": name, "place": {"mountpoint": at}, "recommended": recommended}
        plan = {"roles": [role("wal", "/o/db/log", recordsize="1M"), role("other", "/o/db/data", recordsize="16K"),
                          role("data", "/o/db/data", recordsize="16K", compression="on")]}
        self.assertEqual(run.recommended_of(plan, Path("/o/db")), {"recordsize": "16K", "compression": "lz4"})
        self.assertEqual(run.recommended_of({"roles": []}, Path("/o/db")), {})
        # The directory of the files may be deeper, and a log beside them is another dataset.
        plan = {"roles": [role("wal", "/o/db/data/store-wal", recordsize="1M"), role("data", "/o/db/data/store", recordsize="32K")]}
        self.assertEqual(run.recommended_of(plan, Path("/o/db")), {"recordsize": "32K"})
        self.assertEqual(run.recommended_of({"roles": [role("data", "/o/db/log", recordsize="32K")]}, Path("/o/db")), {})


class Causes(unittest.TestCase):
    @staticmethod
    def failed(*trials):
        return [{"study": "sqlite", "case": {"setting": setting}, "label": setting, "block": block, "why": why}
                for block, (setting, why) in enumerate(trials)]

    def test_the_errors_of_the_settings_without_trials_are_named(self):
        failed = self.failed(("1M lz4", "no space\n  left"), ("128K lz4", "another"), ("128K zstd-3", "no space left"))
        self.assertEqual(run.causes(failed, ["1M lz4", "128K zstd-3"]), "1M lz4, 128K zstd-3: no space left")
        self.assertEqual(run.causes([], ["1M lz4"]), "")

    def test_at_most_three_are_named_and_each_is_shortened(self):
        failed = self.failed(*(("1M lz4", f"error {n} " + 100 * "word ") for n in range(5)))
        named = run.causes(failed, ["1M lz4"]).split("; ")
        self.assertEqual([why.split(" word")[0] for why in named[:-1]], [f"1M lz4: error {n}" for n in range(3)])
        self.assertTrue(all(len(why) <= len("1M lz4: ") + run.MAX_CAUSE and why.endswith("word …") for why in named[:-1]), named)
        self.assertEqual(named[-1], "and 2 more")


if __name__ == "__main__":
    unittest.main()
