"""The phases of ldap-import: writing the LDIF, and importing it while the rate is watched.

The progress of the import is read from the kernel: the offset of the importer's descriptor of the LDIF. It is exact, costs
the importer nothing, is the same for both servers, and is what the file system sees. Both servers read the file once,
sequentially.
"""

import os
import time
from bisect import bisect_left

import ldap_data
import ldap_servers
from common import driver, server
from common.driver import Failure

LOOK_S = 0.05
COPY = 1 << 20
LDIF = "telco.ldif"


def load(spec):
    """Copies the LDIF to its dataset, and prepares an importer with an empty database."""
    entries, entry_bytes = spec.get("entries", 0), spec.get("entry_bytes", 4700)
    if entries < 1:
        raise Failure("the parameter entries must be at least 1: set it in the scale")
    made = spec.cached(f"telco-{entries}-{entry_bytes}-{spec.seed}.ldif",
                       lambda path: ldap_data.write_ldif(path, entries, entry_bytes, spec.seed))
    target = spec.path("ldif") / LDIF
    with driver.Progress(made.stat().st_size, "bytes") as progress, open(made, "rb") as source, \
            open(target, "wb", buffering=0) as copy:
        while piece := source.read(COPY):
            copy.write(piece)
            progress.add(len(piece))
        os.fsync(copy.fileno())
    driver.say_entropy(driver.samples_of(made, spec.random("samples")))
    driver.figure("ldif_bytes", made.stat().st_size, "bytes")
    ldap_servers.of(spec).prepare()


def import_(spec):
    """Imports the LDIF; prints the rate during the import, and the figures at its end."""
    importer, ldif, entries = ldap_servers.of(spec), spec.path("ldif") / LDIF, spec.get("entries", 0)
    rate = Rate(ldif.stat().st_size, entries)
    driver.version(importer.product, importer.version())
    with driver.measured(), driver.Progress(entries, "entries", watch=lambda: rate.done):
        began = time.monotonic()
        _run(spec, importer, ldif, rate)
        took = time.monotonic() - began
    log = (spec.scratch / f"{importer.name}.log").read_text(errors="replace")
    imported = importer.imported(log, entries)
    if imported < entries:
        raise Failure(f"{importer.name} took {imported} of {entries} entries; see its log in {spec.scratch}")
    driver.figure("entries_per_s", rate.average(0, 1), "1/s")
    driver.figure("ldif_s", rate.seconds(), "s")
    driver.figure("import_s", took, "s")
    driver.figure("ldif_bytes", ldif.stat().st_size, "bytes")
    _gained(spec, rate)


def _run(spec, importer, ldif, rate):
    every = spec.get("report_every", 2.0)
    with server.Server(importer.name, importer.command(ldif), spec.scratch, env=importer.environment()) as running:
        reader, said = None, time.monotonic()
        while running.process.poll() is None:
            if reader is None and not rate.finished:
                reader = ldap_servers.reader_of(running.process.pid, ldif)
            reader = _look(reader, rate)
            if rate.running and time.monotonic() >= said + every:
                said = time.monotonic()
                rate.say()
            time.sleep(LOOK_S)
        if running.process.returncode != 0:
            raise Failure(f"{importer.name} ended with {running.process.returncode}: {running.last_lines()}")
        rate.end()


def _look(reader, rate):
    """Returns the offset, or None if the importer has closed the file."""
    if reader is None:
        return None
    try:
        with open(reader, encoding="ascii") as info:
            rate.at(int(info.readline().split()[1]))
        return reader
    except OSError:
        rate.end()
        return None


def _gained(spec, rate):
    """Prints the effect of a switch during the import, if there was one."""
    switch, settle = spec.get("switch_at", 0.0), spec.get("settle", 0.2)
    if not switch:
        return
    # The first part is given time to warm up and the switch to take effect. At the end, an importer processes its
    # buffers after it has read everything.
    before, after = rate.average(switch / 2, switch), rate.average(min(switch + settle, 0.9), END)
    driver.figure("rate_before", before, "1/s")
    driver.figure("rate_after", after, "1/s")
    driver.figure("gained", after / before, "ratio")
    new = rate.plateau(switch, after)
    driver.figure("plateau_s", rate.seconds_between(switch, new), "s")
    if new + 4 * WINDOW < END:
        driver.figure("kept", rate.kept(new), "ratio")
    driver.log(f"The switch raised the rate from {before:.1f} to {after:.1f} entries/sec: {after / before:.2f} times")


# The new rate is reached when it is this share of its final value, over this share of the file. The last part of the file does not count.
PLATEAU, WINDOW, END = 0.9, 0.02, 0.95


class Rate:
    """Records how much of the LDIF was read at which time. Entries are counted in proportion to bytes."""

    def __init__(self, size, entries):
        self.size, self.entries = size, entries
        self.times, self.places = [], []
        self.finished, self._last = False, None

    @property
    def done(self):
        """Returns the number of entries so far."""
        return int(self._share() * self.entries)

    @property
    def running(self):
        """Records that the file is being read."""
        return bool(self.places) and not self.finished

    def _share(self):
        return self.places[-1] / self.size if self.places else 0.0

    def at(self, place, now=None):
        """Records that the importer has read up to `place`. The import begins with the first byte."""
        now = time.monotonic() if now is None else now
        if place == 0 and (not self.places or self.places[-1] == 0):
            self.times, self.places = [now], [0]
        elif not self.finished:
            self.times.append(now)
            self.places.append(max(place, self.places[-1] if self.places else 0))
            if place >= self.size:
                self.finished = True

    def end(self, now=None):
        """Records that the importer has closed the file or ended."""
        if not self.finished and self.places:
            self.at(self.size, now)
        self.finished = True

    def seconds(self):
        """Returns the seconds from the first byte to the last."""
        return self.seconds_between(0, 1)

    def seconds_between(self, low, high):
        """Returns the seconds between two shares of the file."""
        return self._when(high) - self._when(low)

    def average(self, low, high):
        """Returns the entries per second between two shares of the file."""
        took = self.seconds_between(low, high)
        if took <= 0:
            raise Failure("the import ended before its rate could be measured: use more entries")
        return (high - low) * self.entries / took

    def plateau(self, switch, rate):
        """Returns the share of the file from which on the rate over the next `WINDOW` of it is `PLATEAU` of `rate`."""
        share = switch
        while share + WINDOW < END and self.average(share, share + WINDOW) < PLATEAU * rate:
            share += WINDOW / 4
        return share

    def kept(self, new):
        """Returns the rate over the second half of the file between the share `new` and `END`, over that of the first half."""
        middle = (new + END) / 2
        return self.average(middle, END) / self.average(new, middle)

    def _when(self, share):
        """Returns the time at which this share had been read, interpolated linearly between two observations."""
        if len(self.places) < 2:
            raise Failure("the importer was never observed reading the LDIF: use more entries")
        wanted = share * self.size
        after = max(bisect_left(self.places, wanted), 1)
        if after >= len(self.places):
            return self.times[-1]
        (low, high), (early, late) = self.places[after - 1:after + 1], self.times[after - 1:after + 1]
        return early + (late - early) * ((wanted - low) / (high - low) if high > low else 1.0)

    def say(self):
        """Prints a line like those of the report, and the two rates as series."""
        now, done = self.times[-1], self._share() * self.entries
        before_t, before = self._last or (self.times[0], 0.0)
        self._last = now, done
        if now <= before_t or now <= self.times[0]:
            return
        average, recent = done / (now - self.times[0]), (done - before) / (now - before_t)
        driver.series("average_rate", average, "1/s")
        driver.series("recent_rate", recent, "1/s")
        when = time.strftime("%d/%b/%Y:%H:%M:%S %z")
        driver.log(f"[{when}] - import telco: Processed {int(done)} entries -- average rate {average:.1f}/sec, "
                   f"recent rate {recent:.1f}/sec")
