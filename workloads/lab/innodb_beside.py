#!/usr/bin/env python3
"""Simulates a user at a prompt while the machine works: the delay of key strokes, and the duration of a command.

As a program it is a process with the usual priority, which wakes up every 5 ms and records its delay, and runs a small
shell command every 100 ms. It writes its counts (pickled) and resets them for each line of its input, and writes them when
its input ends. As a module, `Beside` starts and stops the process.
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
# Seconds for which the idle machine is measured before each measurement.
QUIET_S = 0.5


class Beside:
    """The process beside the work; after `begin`, `quiet` contains its measurements from before the work."""

    def __enter__(self):
        # It ends when its input is closed, so it cannot outlive the driver.
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # Wait until it counts.
        pickle.load(self.process.stdout)
        return self

    def __exit__(self, *_):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def begin(self):
        """Measures the idle machine, then starts the count that `say` reports."""
        time.sleep(QUIET_S)
        self.process.stdin.write(b"begin\n")
        self.process.stdin.flush()
        self.quiet = pickle.load(self.process.stdout)

    def end(self):
        """Ends the count."""
        self.process.stdin.close()
        self.counted = pickle.load(self.process.stdout)

    def say(self):
        """Prints the latencies `wake` and `shell`, and the medians and 99th percentiles of the idle machine."""
        for op in ("wake", "shell"):
            driver.latency(op, self.counted[op])
            driver.figure(f"quiet_{op}_p50", self.quiet[op].percentile(0.5), "ns")
            driver.figure(f"quiet_{op}_p99", self.quiet[op].percentile(0.99), "ns")


class Watch:
    """The counts of the process."""

    def __init__(self):
        # Protects against a command that ends while its count is being sent.
        self.lock, self.counts = threading.Lock(), self._nothing()

    @staticmethod
    def _nothing():
        return {"wake": driver.Latencies(), "shell": driver.Latencies()}

    def reset(self):
        """Resets the counts and returns the previous ones."""
        with self.lock:
            counted, self.counts = self.counts, self._nothing()
        return counted

    def hand_over(self):
        """Resets the counts, and only then sends the previous ones: their reader relies on the new count."""
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
        """Counts until the input ends. A missed wake-up counts with its delay, like every key that a user pressed in that
        time."""
        self.hand_over()
        due = time.monotonic_ns() + WAKE_NS
        while True:
            patience = max(0, due - time.monotonic_ns()) / 1e9
            told = select.select([sys.stdin], [], [], patience)[0]
            # Wake-ups that were due before the message count: on a busy host both are noticed at the same
            # time.
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
