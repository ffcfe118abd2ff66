"""Makes a host with many pools from a capture of one: kstats, and programs zpool and zfs that print files.

make(root, pools, datasets, snapshots) fills root/proc and root/bin. The snapshots are at most a day old, as those of hourly
schedules, so that no alert about their age fires.
"""

import json
import shutil
import time
from pathlib import Path

CAPTURE = Path(__file__).resolve().parents[2] / "crates/zfs/tests/captures/openzfs-2.3.2/healthy"
# Options, output columns and property names are those of crates/zfs and of zfs_exporter 2.3.
ZPOOL = """#!/bin/sh
for last; do before=$pool; pool=$last; done
case "$1 $2" in
    "status -j") file=status.json ;;
    "list -Ho") exec cat "$DIR/names" ;;
    "list -Hp") file=list ;;
    "get -Hpo") file=properties ;;
    "get -Hp") file=vdevs pool=$before ;;
    "iostat -w"*) file=latencies ;;
    "iostat -r"*) file=sizes ;;
    "events -Hv") exec cat "$DIR/events" ;;
    *) echo "unexpected: zpool $*" >&2; exit 2 ;;
esac
exec cat "$DIR/$pool/$file"
"""
ZFS = """#!/bin/sh
for last; do pool=$last; done
case "$*" in
    version) exec cat "$DIR/version" ;;
    "list -Hp -t filesystem,volume "*) file=datasets ;;
    "list -Hp -t snapshot "*) file=snapshots ;;
    "get -Hp -t filesystem,volume "*) file=properties4 ;;
    "get -Hprt filesystem "*) file=properties3 ;;
    "get -Hprt volume "*) exit 0 ;;
    *) echo "unexpected: zfs $*" >&2; exit 2 ;;
esac
exec cat "$DIR/$pool/$file"
"""


def text(name):
    return (CAPTURE / name).read_text()


def make(root, pools, datasets, snapshots):
    answers, kstats = root / "answers", root / "proc/spl/kstat/zfs"
    kstats.mkdir(parents=True)
    answers.mkdir()
    (root / "bin").mkdir()
    for name, script in (("zpool", ZPOOL), ("zfs", ZFS)):
        program = root / "bin" / name
        program.write_text(script.replace("$DIR", str(answers)))
        program.chmod(0o755)
    for counter in (CAPTURE / "kstat").iterdir():
        if counter.is_file():
            shutil.copy(counter, kstats)
    names = [f"pool{number}" for number in range(pools)]
    (answers / "names").write_text("".join(f"{name}\n" for name in names))
    (answers / "version").write_text(text("zfs-version"))
    (answers / "events").write_text(text("zpool-events"))
    for name in names:
        (answers / name).mkdir()
        write_pool(answers / name, name)
        write_datasets(answers / name, name, datasets, snapshots)
        write_kstats(kstats / name, name, datasets)


def write_pool(to, name):
    status = json.loads(text("zpool-status.json").replace('"tank"', f'"{name}"'))
    (to / "status.json").write_text(json.dumps(status))
    pool = text("zpool-list").replace("tank\t", f"{name}\t", 1)
    (to / "list").write_text(pool)
    columns = [line for line in text("commands").splitlines() if line.startswith("zpool-list\t")]
    values = zip(columns[0].split()[-1].split(","), pool.rstrip("\n").split("\t"))
    (to / "properties").write_text("".join(f"{name}\t{key}\t{value}\n" for key, value in values))
    (to / "vdevs").write_text(text("zpool-get.tank"))
    for file, capture in (("latencies", "zpool-iostat-latency"), ("sizes", "zpool-iostat-request-size")):
        (to / file).write_text(text(capture).replace("\ntank\n", f"\n{name}\n", 1))


def write_datasets(to, name, datasets, snapshots):
    row = next(line for line in text("zfs-list").splitlines() if line.startswith("tank/pg\t"))
    properties = [line.split("\t")[1:] for line in text("zfs-get").splitlines() if line.startswith("tank/pg\t")]
    columns = [line for line in text("commands").splitlines() if line.startswith("zfs-list\t")]
    space = dict(zip(columns[0].split()[-1].split(","), row.split("\t")))
    asked = ("available", "logicalused", "quota", "referenced", "used", "usedbydataset", "written")
    with (to / "datasets").open("w") as listed, (to / "properties4").open("w") as four, \
            (to / "properties3").open("w") as three:
        for number in range(datasets):
            dataset = f"{name}/database-{number}"
            listed.write(row.replace("tank/pg\t", f"{dataset}\t", 1) + "\n")
            four.writelines("\t".join([dataset, *line]).replace("tank", name) + "\n" for line in properties)
            three.writelines(f"{dataset}\t{key}\t{space[key]}\n" for key in asked)
    with (to / "snapshots").open("w") as file:
        for number in range(snapshots):
            dataset, age = divmod(number * datasets, snapshots)
            created = int(time.time()) - 3600 * (age * 24 // snapshots)
            file.write(f"{name}/database-{dataset}@hourly-{number}\t{created}\n")


def write_kstats(to, name, datasets):
    source = CAPTURE / "kstat/tank"
    to.mkdir()
    for file in ("state", "guid", "txgs", "iostats"):
        shutil.copy(source / file, to)
    counters = (source / "objset-0x36").read_text()
    for number in range(datasets):
        one = counters.replace("7    tank\n", f"7    {name}/database-{number}\n")
        (to / f"objset-{0x1000 + number:#x}").write_text(one)
