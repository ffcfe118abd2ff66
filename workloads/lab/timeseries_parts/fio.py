"""Runs fio with the report's command line, and parses its output during and after the run."""

import json
import time

from common import driver, server

from . import aged

# The report's arguments, except for the size, the directory, and those that a study changes.
REPORT = {
    "randrepeat": "1", "ioengine": "libaio", "gtod_reduce": "1", "name": "test", "filename": "test", "bs": "4k",
    "iodepth": "64", "size": "4G", "readwrite": "randrw", "rwmixread": "75",
}
ROLE = "data"


def command(spec):
    """Returns fio's arguments: the report's, changed by the parameters `fio_NAME`; "" removes an argument."""
    options = {**REPORT, "size": spec.get("size"), "filename": str(spec.path(ROLE) / REPORT["filename"])}
    changes = {name[4:]: value for name, value in spec.parameters.items() if name.startswith("fio_")}
    options.update({name: str(value) for name, value in changes.items()})
    # Offsets depend on the seed: `randrepeat` alone would draw the same ones in all blocks.
    options["randseed"] = str(spec.seed)
    # One process, so that none is left running when it is killed.
    options["thread"] = "1"
    return [f"--{name}={value}" for name, value in options.items() if value != ""]


def lay(spec):
    """Writes the file that `mix` reads, as fio would before it begins, and prints how compressible it is."""
    # For a job that only writes, fio would leave the file a hole. Writing it in pieces of the job's size would
    # take too long if each write waits for a spinning disk.
    arguments = command(spec) + ["--create_only=1", "--readwrite=randrw", "--bs=1m"]
    server.run("fio-lay", ["fio", *arguments], spec.scratch)
    path = spec.path(ROLE) / REPORT["filename"]
    driver.sync_file(path)
    driver.say_entropy(driver.samples_of(path, spec.random("samples")))


def warm(spec):
    """Reads the file from its beginning to its end, again and again for the duration of a mix: a cache vdev takes blocks once a second."""
    end = time.monotonic() + float(spec.get("fio_runtime"))
    while time.monotonic() < end:
        with open(spec.path(ROLE) / REPORT["filename"], "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def mix(spec):
    """Runs the measured mix; the IOPS are those that fio reports."""
    arguments = [*command(spec), "--output-format=json", "--status-interval=1"]
    last = None
    timed = spec.get("fio_time_based", 0)
    work = None if timed else driver.size(spec.get("size")) // driver.size(spec.get("fio_bs", REPORT["bs"]))
    with driver.measured(), Run(arguments, spec.scratch) as run, driver.Progress(work, "operations") as progress:
        for report in run.reports():
            if last is None:
                driver.version("fio", report.get("fio version", "unknown"))
            last = figures(report)
            progress.set(last["operations"])
    if last is None:
        raise driver.Failure(f"fio printed no report; see {run.log_path}")
    for name in ("read_iops", "write_iops"):
        driver.figure(name, last[name], "1/s")
    driver.figure("iops", last["read_iops"] + last["write_iops"], "1/s")
    driver.figure("fio_s", last["seconds"], "s")
    driver.figure("full", aged.used(spec.paths.get(aged.ROLE) or spec.path(ROLE)), "percent")


def figures(report):
    """Prints progress and rates from one of fio's JSON objects."""
    job = report["jobs"][0]
    if job.get("error"):
        raise driver.Failure(f"fio failed with error {job['error']}; see fio.log in the trial's scratch directory")
    read, write = job["read"], job["write"]
    return {
        "operations": read["total_ios"] + write["total_ios"],
        "read_iops": read["iops"],
        "write_iops": write["iops"],
        "seconds": max(read["runtime"], write["runtime"]) / 1000,
    }


class Run(server.Server):
    """fio as a child process whose reports are read while it runs."""

    def __init__(self, arguments, scratch):
        self.out = scratch / "fio.json"
        # Remove the report of an earlier phase, which would otherwise be read until fio has opened the file.
        self.out.unlink(missing_ok=True)
        super().__init__("fio", ["fio", *arguments, f"--output={self.out}"], scratch)

    def reports(self):
        """Yields the JSON objects as they arrive; returns when fio has succeeded."""
        self.out.touch()
        with open(self.out, encoding="utf-8", errors="replace") as file:
            pending, ended = "", False
            while not ended:
                ended = self.process.poll() is not None
                whole, pending = objects(pending + file.read())
                yield from whole
                if not ended:
                    time.sleep(0.1)
        if self.process.returncode != 0:
            raise driver.Failure(f"fio exited with {self.process.returncode}: {self.last_lines()}")


def objects(text):
    """Returns the complete JSON objects at the beginning of `text`, and the rest; skips fio's notes between them."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while (begin := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, begin)
        except ValueError:
            return found, text[begin:]
        found.append(value)
    return found, ""
