"""Servers and other programs that a driver starts; the kernel kills them if the driver dies."""

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
# The trial gives a driver ten seconds after SIGTERM, which several servers may have to share.
STOP_S = 8
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """Called first in a child process: makes the kernel kill it when its parent ends."""
    # This runs between fork and exec. Start servers from the main thread: the kernel sends the signal when the
    # thread that forked ends.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)


def missing(program, package):
    """Yields a line for `--check` if `program` is neither in PATH nor in /usr/sbin."""
    if find(program) is None:
        yield f"{program} is not installed: apt install {package}, or scripts/install.sh --for lab"


def find(program):
    """Returns the program's path or None. Servers are often in /usr/sbin, which may not be in a user's PATH."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin:/usr/local/sbin")


def free_port():
    """Returns a free port of the loopback interface; another process may still take it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A child process that is stopped at the end of the `with` block. Its output goes to SCRATCH/NAME.log."""

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
            raise Failure(f"cannot start {self.name} ({why}); scripts/install.sh --for lab installs it") from why
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_ready(self, ready, seconds=60):
        """Waits until `ready()` is true; an OSError means that the server is not ready yet."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise Failure(f"{self.name} exited with {self.process.returncode} during its start: {self.last_lines()}")
            with contextlib.suppress(OSError):
                if ready():
                    return
            time.sleep(0.05)
        raise Failure(f"{self.name} was not ready after {seconds} s: {self.last_lines()}")

    def stop(self, seconds=STOP_S):
        """Stops the server. If it does not end in time it is killed, which is a failure: its files may be incomplete."""
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
        """Returns the end of the log, on one line."""
        with contextlib.suppress(OSError):
            return " / ".join(self.log_path.read_text(errors="replace").splitlines()[-count:])
        return "(no log)"


def run(name, arguments, scratch, **popen):
    """Runs a program until it exits; an exit code other than 0 is a failure. Its output goes to the log."""
    with Server(name, arguments, scratch, **popen) as program:
        if program.process.wait() != 0:
            raise Failure(f"{name} exited with {program.process.returncode}: {program.last_lines()}")
