"""A pool on a file and its mount process, which can end at any moment."""

import contextlib
import os
import shutil
import signal
import subprocess
import time

# Exit status of the mount process after a simulated power failure.
CUT = 75


class NoMount(Exception):
    """The mount process ended before the mount was ready."""


class Mounted:
    def __init__(self, program, pool, properties, scratch):
        self.program, self.pool = program, pool
        self.properties = ["recordsize=16K", "compression=lz4", *properties]
        self.dir = os.path.join(scratch, "crash-mnt")
        self.vdev = os.path.join(scratch, "crash-vdev")
        self.log = os.path.join(scratch, "crash-serve.log")
        self.process = None
        os.makedirs(self.dir, exist_ok=True)

    def up(self, mode, power=None):
        """Imports or creates the pool and mounts it; returns when the mount is ready, or raises NoMount."""
        environment = dict(os.environ)
        environment.pop("POOLWRIGHT_POWER", None)
        if power is not None:
            environment["POOLWRIGHT_POWER"] = power
        if not os.path.exists(self.vdev):
            options = [word for one in self.properties for word in ("-O", one)]
            subprocess.run([self.program, "pool", "create", self.pool, self.vdev, *options], check=True, stdout=subprocess.DEVNULL)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "mount", self.pool, self.dir, "-o", f"caching={mode}", "--arc", "512M"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True,
            )
        with open(self.vdev + ".pid", "w", encoding="ascii") as file:
            file.write(f"{self.process.pid}\n")
        line = self.process.stdout.readline()
        if b" mounted on " not in line:
            status = self.process.wait()
            self.clear()
            raise NoMount(f"the mount process ended with status {status} before the mount was ready: {self.log_tail()}")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def died_of(self):
        """The exit status of the process if it has ended or ends within two seconds; otherwise None."""
        try:
            return self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        """Kills the process and removes the dead mount; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        status = self.process.wait()
        self.clear()
        return status

    def clear(self):
        # Lazy, because programs may still have files open on the dead mount.
        subprocess.run(["umount", "-l", self.dir], stderr=subprocess.DEVNULL, check=False)
        if self.process and self.process.stdout:
            self.process.stdout.close()
        self.process = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.vdev + ".pid")

    def down(self):
        """Unmounts and waits for the export."""
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
            raise RuntimeError(f"the mount process ended with status {status} at the unmount: {rest[-200:]} {self.log_tail()}")

    def log_tail(self):
        with open(self.log, "rb") as log:
            return log.read()[-400:].decode(errors="replace").strip()

    def forget(self):
        """Removes the pool's file; the next `up` creates a new pool."""
        if os.path.exists(self.vdev):
            os.unlink(self.vdev)
            # Remove the pool from the registry.
            subprocess.run([self.program, "pool", "export", self.pool], check=False, capture_output=True)

    def keep(self, where, name, others):
        if where:
            os.makedirs(where, exist_ok=True)
            target = os.path.join(where, name)
            subprocess.run(["cp", "--sparse=always", self.vdev, target], check=False)
            for log in others + [self.log]:
                if os.path.exists(log):
                    shutil.copy(log, f"{target}.{os.path.basename(log)}")
