#!/usr/bin/env python3
"""Somebody at a prompt while the machine works: how late are the key strokes, how long takes a command?

As a program: a process of its own with the usual priority, which wakes up every 5 ms and notes how late it is, and runs a
small shell command every 100 ms. It hands over what it counted (pickled) when a line comes on its input, after which the
count starts anew, and when its input ends. As a module: `Beside` starts and stops it.
"""

import os
import pickle
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

from common import driver

WAKE_NS = 5_000_000
SHELL_S = 0.1
COMMAND = ["/bin/sh", "-c", "ls -l /usr >/dev/null"]
# How long the machine is watched at rest before each measurement.
QUIET_S = 0.5


class Beside:
    """The process beside; `quiet` holds what it saw before the work began, once `begin` was called."""

    def __enter__(self):
        # It ends with its input, so it cannot outlive the driver.
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # It has begun to count.
        pickle.load(self.process.stdout)
        return self

    def __exit__(self, *_):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def begin(self):
        """Watches the machine at rest, then starts the count that `say` reports."""
        time.sleep(QUIET_S)
        self.process.stdin.write(b"begin\n")
        self.process.stdin.flush()
        self.quiet = pickle.load(self.process.stdout)

    def end(self):
        """Ends the count."""
        self.process.stdin.close()
        self.counted = pickle.load(self.process.stdout)

    def say(self):
        """Says its latencies, `wake` and `shell`, and the medians and 99th percentiles at rest."""
        for op in ("wake", "shell"):
            driver.latency(op, self.counted[op])
            driver.figure(f"quiet_{op}_p50", self.quiet[op].percentile(0.5), "ns")
            driver.figure(f"quiet_{op}_p99", self.quiet[op].percentile(0.99), "ns")


class Watch:
    """What the process counts."""

    def __init__(self):
        # Against a command that ends while its count is being handed over.
        self.lock, self.counts = threading.Lock(), self._nothing()

    @staticmethod
    def _nothing():
        return {"wake": driver.Latencies(), "shell": driver.Latencies()}

    def reset(self):
        """Starts anew; the counts so far."""
        with self.lock:
            counted, self.counts = self.counts, self._nothing()
        return counted

    def hand_over(self):
        """Starts anew, and only then hands the counts so far over: who reads them relies on the new count."""
        pickle.dump(self.reset(), sys.stdout.buffer)
        sys.stdout.buffer.flush()

    def run_commands(self):
        nothing = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        while True:
            began = time.monotonic_ns()
            os.waitpid(os.posix_spawn(COMMAND[0], COMMAND, os.environ, file_actions=nothing), 0)
            took = time.monotonic_ns() - began
            with self.lock:
                self.counts["shell"].add(took)
            time.sleep(max(0, SHELL_S - took / 1e9))

    def wake_up(self):
        """Until the input ends. A wake-up that was missed counts with the time that it was late, like every key
        somebody pressed in that time."""
        self.hand_over()
        due = time.monotonic_ns() + WAKE_NS
        while True:
            patience = max(0, due - time.monotonic_ns()) / 1e9
            told = select.select([sys.stdin], [], [], patience)[0]
            # What was due before it was told counts: on a busy host both are found at once.
            while due <= (now := time.monotonic_ns()):
                self.counts["wake"].add(now - due)
                due += WAKE_NS
            if told:
                goes_on = sys.stdin.readline()
                due = time.monotonic_ns() + WAKE_NS
                self.hand_over()
                if not goes_on:
                    return


def main():
    watch = Watch()
    threading.Thread(target=watch.run_commands, daemon=True).start()
    watch.wake_up()


if __name__ == "__main__":
    main()
