"""A pool on a file and the process that has it mounted, which may end at any moment."""

import os
import shutil
import signal
import subprocess
import time

# How the process ends when the simulated power is cut.
CUT = 75


class NoMount(Exception):
    """The mount process ended before it served anything."""


class Mounted:
    def __init__(self, serve, scratch):
        self.serve = serve
        self.dir = os.path.join(scratch, "crash-mnt")
        self.vdev = os.path.join(scratch, "crash-vdev")
        self.log = os.path.join(scratch, "crash-serve.log")
        self.process = None
        os.makedirs(self.dir, exist_ok=True)

    def up(self, mode, power=None):
        """Imports (or makes) the pool and mounts it; returns when a program can use it, or raises NoMount."""
        environment = dict(os.environ)
        environment.pop("POOLWRIGHT_POWER", None)
        if power is not None:
            environment["POOLWRIGHT_POWER"] = power
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.serve, self.vdev, self.dir, mode], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env=environment, start_new_session=True,
            )
        line = self.process.stdout.readline()
        if not line.startswith(b"mounted"):
            status = self.process.wait()
            self.clear()
            raise NoMount(f"the mount process ended with status {status} before it served: {self.last_words()}")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def died_of(self):
        """The exit status of a process that has ended, or is ending just now; None if it goes on."""
        try:
            return self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        """kill -9, and the dead mount is cleared away. Gives the status the process ended with."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        status = self.process.wait()
        self.clear()
        return status

    def clear(self):
        # Programs that still have files open on it keep a dead mount from plain unmounting.
        subprocess.run(["umount", "-l", self.dir], stderr=subprocess.DEVNULL, check=False)
        if self.process and self.process.stdout:
            self.process.stdout.close()
        self.process = None

    def down(self):
        """Unmounts in order and waits for the export."""
        for _ in range(100):
            done = subprocess.run(["umount", self.dir], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            time.sleep(0.1)
        else:
            raise RuntimeError(f"umount: {done.stderr.strip()}")
        rest, status = self.process.stdout.read(), self.process.wait(timeout=120)
        self.clear()
        if status != 0:
            raise RuntimeError(f"the mount process ended with status {status} at the unmount: {rest[-200:]} {self.last_words()}")

    def last_words(self):
        with open(self.log, "rb") as log:
            return log.read()[-400:].decode(errors="replace").strip()

    def forget(self):
        """The pool's file goes; the next `up` makes a new one."""
        if os.path.exists(self.vdev):
            os.unlink(self.vdev)

    def keep(self, where, name, others):
        if where:
            os.makedirs(where, exist_ok=True)
            target = os.path.join(where, name)
            subprocess.run(["cp", "--sparse=always", self.vdev, target], check=False)
            for log in others + [self.log]:
                if os.path.exists(log):
                    shutil.copy(log, f"{target}.{os.path.basename(log)}")
