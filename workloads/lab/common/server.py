"""Servers and other programs that a driver starts: they never outlive it."""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time

from .driver import Failure

PR_SET_PDEATHSIG = 1
# The trial gives a driver ten seconds after SIGTERM; several servers may have to share them.
STOP_S = 8
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """Called first in a child: the kernel kills it when its parent ends."""
    # Runs between fork and exec. Start servers from the main thread: the kernel sends the signal when the thread that
    # forked ends.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)


def missing(program, package):
    """For `--check`: a line if `program` is not in PATH (or /usr/sbin), else none."""
    if find(program) is None:
        yield f"{program} is not installed: apt install {package}, or scripts/install.sh --for lab"


def find(program):
    """The program's path, or None. Servers are often in /usr/sbin, which a user's PATH need not have."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin:/usr/local/sbin")


def free_port():
    """A port of the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A child that is stopped at the end of the `with`. Its output goes to SCRATCH/NAME.log."""

    def __init__(self, name, arguments, scratch, stop_signal=signal.SIGTERM, **popen):
        self.name, self.arguments, self.stop_signal, self.popen = name, [str(a) for a in arguments], stop_signal, popen
        self.log_path = scratch / f"{name}.log"
        self.process = None

    def __enter__(self):
        try:
            with open(self.log_path, "ab") as out:
                self.process = subprocess.Popen(
                    self.arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                    preexec_fn=die_with_parent, **self.popen)
        except FileNotFoundError as why:
            raise Failure(f"{self.name} cannot be started ({why}); scripts/install.sh --for lab installs it") from why
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_ready(self, ready, seconds=60):
        """Returns when `ready()` is true; while it raises an OSError the server is not there yet."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended with {self.process.returncode} while it started: {self.last_lines()}")
            with contextlib.suppress(OSError):
                if ready():
                    return
            time.sleep(0.05)
        raise Failure(f"{self.name} was not ready after {seconds} s: {self.last_lines()}")

    def stop(self, seconds=STOP_S):
        """Stops it; a server that does not end in time is killed, and that is a failure: its files are not whole."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f"{self.name} did not stop within {seconds} s of {self.stop_signal.name} and was killed") from None

    def last_lines(self, count=3):
        """The end of its log, on one line."""
        with contextlib.suppress(OSError):
            return " / ".join(self.log_path.read_text(errors="replace").splitlines()[-count:])
        return "(no log)"


def run(name, arguments, scratch, **popen):
    """A program that ends by itself: waits for it; a failure if it does not end with 0. Its output is in the log."""
    with Server(name, arguments, scratch, **popen) as program:
        if program.process.wait() != 0:
            raise Failure(f"{name} ended with {program.process.returncode}: {program.last_lines()}")
