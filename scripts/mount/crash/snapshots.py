"""The test of snapshots.sh: PostgreSQL with its data and its log on two datasets, recursive snapshots under load, then a rollback
to each of them, the newest first, after which the recovery must be clean."""

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time

from loads import Lost
from postgres import Postgres


class TwoDatasets(Postgres):
    """The data directory on one dataset, pg_wal on another."""

    name = "postgres"
    settings = {"full_page_writes": "on", "max_wal_size": "64MB", "min_wal_size": "64MB"}
    MANY = 1 << 60

    def place(self, data, wal):
        shutil.move(os.path.join(data, "postgres", "pg_wal"), os.path.join(wal, "pg_wal"))
        subprocess.run(["chown", "-R", "postgres:postgres", os.path.join(wal, "pg_wal")], check=True)
        os.symlink(os.path.join(wal, "pg_wal"), os.path.join(data, "postgres", "pg_wal"))
        os.sync()

    def stop_at_once(self):
        """Kills the server, so that it writes nothing at its end."""
        self.end()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--poolwright", required=True)
    arguments.add_argument("--pool", required=True)
    arguments.add_argument("--scratch", required=True)
    arguments.add_argument("--snapshots", type=int, default=50)
    arguments.add_argument("--one-by-one", action="store_true")
    options = arguments.parse_args()
    program, pool = options.poolwright, options.pool
    data, wal = (os.path.join(options.scratch, name) for name in ("data", "wal"))
    owner = None

    def run(*words):
        return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout

    run("pool", "create", pool, os.path.join(options.scratch, "vdev"), "-O", "compression=lz4")
    try:
        for directory, settings in ((data, ["-o", "recordsize=8K"]), (wal, ["-o", "recordsize=128K"])):
            os.makedirs(directory)
            name = f"{pool}/{os.path.basename(directory)}"
            run("dataset", "create", name, *settings)
            run("mount", name, directory, "--background", "--arc", "512M")
        owner = True
        load = TwoDatasets("snapshots", options.scratch)
        load.alive = lambda: True
        load.prepare(data)
        load.place(data, wal)
        failures = snapshots(options, run, load, data, pool)
    finally:
        if owner:
            load.end()
        subprocess.run([program, "pool", "export", pool], check=False, capture_output=True)
    print(f"{options.snapshots} snapshots, a rollback to each, {failures} failures; {load.acknowledged} transactions acknowledged")
    sys.exit(1 if failures else 0)


def snapshots(options, run, load, data, pool):
    load.start(os.path.join(data, "postgres"))
    stop = threading.Event()
    workers = load.run(data, stop)
    acknowledged = []
    for number in range(options.snapshots):
        time.sleep(0.15)
        acknowledged.append(list(load.last))
        if options.one_by_one:
            run("dataset", "snapshot", f"{pool}/wal@s{number}")
            # Servers checkpoint from time to time. The data's snapshot then refers to a part of the log that is in no snapshot.
            load.sql("checkpoint")
            run("dataset", "snapshot", f"{pool}/data@s{number}")
        else:
            run("dataset", "snapshot", "-r", f"{pool}@s{number}")
    stop.set()
    for worker in workers:
        worker.join(60)
    tried = list(load.tried)
    load.stop_at_once()
    failures = 0
    for number in reversed(range(options.snapshots)):
        for name in ("data", "wal"):
            run("dataset", "rollback", "-r", f"{pool}/{name}@s{number}")
        # The snapshot contains transactions acknowledged before it; later ones may be missing.
        load.last, load.tried = list(acknowledged[number]), list(tried)
        try:
            load.check(data)
        except (Lost, OSError) as why:
            failures += 1
            print(f"snapshot {number}: {type(why).__name__}: {why}", flush=True)
        load.stop_at_once()
    return failures


if __name__ == "__main__":
    main()
