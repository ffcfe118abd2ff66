"""fio with the report's own command line, and what it says while and after it runs."""

import json
import time

from common import driver, server

from . import aged

# The report's words, but for the size, the place, and what a study changes.
REPORT = {
    "randrepeat": "1", "ioengine": "libaio", "gtod_reduce": "1", "name": "test", "filename": "test", "bs": "4k",
    "iodepth": "64", "size": "4G", "readwrite": "randrw", "rwmixread": "75",
}
ROLE = "data"


def command(spec):
    """fio's arguments: the report's, with what parameters `fio_NAME` change or add; "" takes one away."""
    options = {**REPORT, "size": spec.get("size"), "filename": str(spec.path(ROLE) / REPORT["filename"])}
    changes = {name[4:]: value for name, value in spec.parameters.items() if name.startswith("fio_")}
    options.update({name: str(value) for name, value in changes.items()})
    # Places that depend on the seed: `randrepeat` alone would draw the same in all blocks.
    options["randseed"] = str(spec.seed)
    # One process, so that none is left when it is killed.
    options["thread"] = "1"
    return [f"--{name}={value}" for name, value in options.items() if value != ""]


def lay(spec):
    """Writes the file that `mix` reads, as fio does before it begins, and says how well its bytes compress."""
    # For a job that only writes, fio would leave the file a hole; and in pieces of the job's size it would take for ever
    # where each write waits for a spinning disk.
    arguments = command(spec) + ["--create_only=1", "--readwrite=randrw", "--bs=1m"]
    server.run("fio-lay", ["fio", *arguments], spec.scratch)
    path = spec.path(ROLE) / REPORT["filename"]
    driver.sync_file(path)
    driver.say_entropy(driver.samples_of(path, spec.random("samples")))


def mix(spec):
    """The measured mix: IOPS as fio itself gives them."""
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
        raise driver.Failure(f"fio said nothing; see {run.log_path}")
    for name in ("read_iops", "write_iops"):
        driver.figure(name, last[name], "1/s")
    driver.figure("iops", last["read_iops"] + last["write_iops"], "1/s")
    driver.figure("fio_s", last["seconds"], "s")
    driver.figure("full", aged.used(spec.paths.get(aged.ROLE) or spec.path(ROLE)), "percent")


def figures(report):
    """Of one of fio's JSON objects: what is done, and at which rates."""
    job = report["jobs"][0]
    if job.get("error"):
        raise driver.Failure(f"fio failed with error {job['error']}; its words are in fio.log of the trial's scratch folder")
    read, write = job["read"], job["write"]
    return {
        "operations": read["total_ios"] + write["total_ios"],
        "read_iops": read["iops"],
        "write_iops": write["iops"],
        "seconds": max(read["runtime"], write["runtime"]) / 1000,
    }


class Run(server.Server):
    """fio as a child whose reports are read while it runs."""

    def __init__(self, arguments, scratch):
        self.out = scratch / "fio.json"
        # An earlier phase's would be read as this one's, until fio has opened it.
        self.out.unlink(missing_ok=True)
        super().__init__("fio", ["fio", *arguments, f"--output={self.out}"], scratch)

    def reports(self):
        """The JSON objects as they come; returns when fio has ended well."""
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
            raise driver.Failure(f"fio ended with {self.process.returncode}: {self.last_lines()}")


def objects(text):
    """The whole JSON objects at the beginning of `text`, and what is left; fio's notes between them are passed over."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while (begin := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, begin)
        except ValueError:
            return found, text[begin:]
        found.append(value)
    return found, ""
