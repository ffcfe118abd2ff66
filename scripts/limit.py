#!/usr/bin/env python3
"""Runs a test program or a script with a time limit, and names the test that exceeds it.

usage: limit.py [--each SECONDS] [--program SECONDS] PROGRAM [ARGUMENT...]

As cargo's runner it also limits each test: the standard test harness reports a test that has been running for over 60
seconds, and from then on the test has the rest of --each (600). The program has --program (3600) in all. When a limit is
exceeded, the program, the tests that are running and the processes that they started are named, all are terminated (killed
after 10 seconds), and the exit status is 124.

With `--show-output`, the harness repeats the output of tests that passed. Of that, this program passes on only why tests were
skipped (lines that begin with `skipped:` or `SKIPPED`), and appends these lines to the file in POOLWRIGHT_SKIPPED.

In the package poolwright, whose tests wait for other processes most of the time, two tests run for each CPU, unless RUST_TEST_THREADS is set.
"""

import argparse
import os
import re
import selectors
import signal
import subprocess
import sys
import time

# The harness writes this line once for each test, after this many seconds.
REPORTED = re.compile(rb"^test (\S+).* has been running for over (\d+) seconds")
ENDED = re.compile(rb"^test (\S+).* \.\.\. ")
# The harness's sections of the output of tests that passed, and what ends them.
PASSED, REPORT_ENDS = b"successes:", re.compile(rb"^(failures:|test result: )")
OUTPUT_OF = re.compile(rb"^---- (\S+) stdout ----$")
SKIPPED = re.compile(rb"^(?:skipped|SKIPPED [^:]*): (.*)")
EXCEEDED = 124
RUNNER = re.compile(r"CARGO_TARGET_.*_RUNNER")
# Seconds between the two signals, and between two looks at whether the program has ended: a process that it left behind
# may keep its output open.
PATIENCE = 10
LOOK = 0.5


class Watch:
    """The limits of one program, and which of its tests are known to be slow."""

    def __init__(self, each, program, now):
        self.each, self.program, self.end = each, program, now + program
        self.slow = {}  # test -> when its limit is exceeded

    def line(self, line, now):
        reported = REPORTED.match(line)
        if reported:
            self.slow[reported[1].decode()] = now + self.each - int(reported[2])
            return
        ended = ENDED.match(line)
        if ended:
            self.slow.pop(ended[1].decode(), None)

    def next(self):
        return min([self.end, *self.slow.values()])

    def verdict(self, now):
        """Why the program has to be killed, or None."""
        over = sorted(test for test, when in self.slow.items() if now >= when)
        if over:
            return f"time limit exceeded: {', '.join(over)} ran for over {self.each:g} seconds"
        if now >= self.end:
            running = f"; running for over 60 seconds: {', '.join(sorted(self.slow))}" if self.slow else ""
            return f"time limit of {self.program:g} seconds exceeded{running}"
        return None


class Filter:
    """Leaves out the output of tests that passed, but for the reasons of those that were skipped."""

    def __init__(self, into):
        self.into, self.reports, self.test = into, False, b""

    def write(self, line):
        """Prints the line, unless it is left out."""
        self.reports = (self.reports or line == PASSED) and not REPORT_ENDS.match(line)
        if not self.reports:
            sys.stdout.buffer.write(line + b"\n")
            return
        test = OUTPUT_OF.match(line)
        if test:
            self.test = test[1]
        skipped = SKIPPED.match(line)
        if skipped:
            line = b"skipped: " + self.test + b": " + skipped[1] + b"\n"
            sys.stdout.buffer.write(line)
            if self.into:
                with open(self.into, "ab") as into:
                    into.write(line)


def command_of(pid):
    """The command line of a process; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            return command.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def descendants(pid):
    """The processes below this one: (pid, command)."""
    below = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stat:
                    parent = int(stat.read().rsplit(b")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue  # ended meanwhile
            below.setdefault(parent, []).append((int(entry), command_of(entry)))
    found, todo = [], [pid]
    while todo:
        children = below.get(todo.pop(), [])
        found += children
        todo += [child for child, _ in children]
    return found


def send(processes, number):
    """Sends a signal to those that are left."""
    for pid, _ in processes:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def running(processes):
    """Those of them that still run: a number may have been given to another program."""
    return [(pid, command) for pid, command in processes if command_of(pid) == command]


def terminate(child):
    """Ends the program and all below it. They get time to clean up."""
    processes = [(child.pid, " ".join(child.args)), *descendants(child.pid)]
    for pid, command in processes:
        print(f"  process {pid}: {command[:200]}", file=sys.stderr)
    send(processes, signal.SIGTERM)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and child.poll() is None:
        time.sleep(0.05)
    send([*processes[:1], *running(processes[1:])], signal.SIGKILL)
    child.wait()


def pump(child, watch, output):
    """Passes the program's output on until it ends; the reason why it has to be killed, or None."""
    out = child.stdout.fileno()
    selector = selectors.DefaultSelector()
    selector.register(out, selectors.EVENT_READ)
    rest = b""
    try:
        while True:
            ended = child.poll() is not None
            if selector.select(0 if ended else max(0.0, min(LOOK, watch.next() - time.monotonic()))):
                data = os.read(out, 1 << 16)
                if not data:
                    child.wait()
                    return None
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    watch.line(line, time.monotonic())
                    output.write(line)
                sys.stdout.buffer.flush()
            elif ended:
                return None
            reason = watch.verdict(time.monotonic())
            if reason and not ended:
                return reason
    finally:
        # Also of a program that is killed: it can name the test that runs.
        sys.stdout.buffer.write(rest)
        sys.stdout.buffer.flush()


def stop(number, _):
    sys.exit(128 + number)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=float, default=600, metavar="SECONDS")
    parser.add_argument("--program", type=float, default=3600, metavar="SECONDS")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("a program is required")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    watch = Watch(arguments.each, arguments.program, time.monotonic())
    # A test that looks for cargo's runner would put this program before every command that it starts.
    environment = {name: value for name, value in os.environ.items() if not RUNNER.fullmatch(name)}
    if os.environ.get("CARGO_PKG_NAME") == "poolwright":
        environment.setdefault("RUST_TEST_THREADS", str(2 * len(os.sched_getaffinity(0))))
    child = subprocess.Popen(arguments.command, stdout=subprocess.PIPE, env=environment)
    reason = "interrupted"
    try:
        reason = pump(child, watch, Filter(os.environ.get("POOLWRIGHT_SKIPPED")))
    finally:
        if reason:
            print(f"\n{os.path.basename(arguments.command[0])}: {reason}", file=sys.stderr)
            terminate(child)
    if reason:
        return EXCEEDED
    return 128 - child.returncode if child.returncode < 0 else child.returncode


if __name__ == "__main__":
    sys.exit(main())
