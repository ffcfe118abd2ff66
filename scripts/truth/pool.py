"""Mounts a pool while a database is recorded on it."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Time limits in seconds. A server may still hold files open for a moment when the datasets are unmounted.
UNMOUNT_S = 30.0
EXPORT_S = 120.0
POLL_S = 0.1


@contextlib.contextmanager
def mounted(program, folder, datasets, pool, scratch):
    """Creates a pool and mounts its datasets below `folder`, each on the existing empty directory of its name. Afterwards copies the
    files to these directories and destroys the pool.

    `datasets` maps names to properties; `pool` is the campaign's pool section."""
    with tempfile.TemporaryDirectory(prefix="truth-pool-", dir=scratch) as place:
        name = Path(place).name
        _run(program, "pool", "create", name, f"{place}/vdev:64G", "-o", f"ashift={pool['ashift']}")
        try:
            for dataset, properties in datasets.items():
                given = [word for key, value in properties.items() for word in ("-o", f"{key}={value}")]
                _run(program, "dataset", "create", f"{name}/{dataset}", *given)
            for number, dataset in enumerate(datasets):
                # The first mount owns the pool.
                more = ["--arc", pool["arc"], "--device", pool["device"]] if number == 0 else []
                _run(program, "mount", f"{name}/{dataset}", folder / dataset, "-o", f"caching={pool['caching']}",
                     "--background", *more)
            yield
            for dataset in datasets:
                shutil.copytree(folder / dataset, f"{place}/{dataset}", symlinks=True)
        finally:
            for dataset in datasets:
                _unmount(folder / dataset)
            _destroy(program, name)
        for dataset in datasets:
            shutil.copytree(f"{place}/{dataset}", folder / dataset, symlinks=True, dirs_exist_ok=True)


def _run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"truth.sh: poolwright {arguments[0]} failed\n{done.stderr.rstrip()}")


def _unmount(folder):
    ends = time.monotonic() + UNMOUNT_S
    while folder.is_mount():
        late = time.monotonic() > ends
        subprocess.run(["umount", *(["-l"] if late else []), folder], stderr=subprocess.DEVNULL, check=False)
        if late:
            return
        time.sleep(POLL_S)


def _destroy(program, name):
    """Destroys the pool. Retries, because the mount's process first flushes and exports the pool."""
    ends = time.monotonic() + EXPORT_S
    while (done := subprocess.run([program, "pool", "destroy", name], capture_output=True, text=True, check=False)).returncode:
        if time.monotonic() > ends:
            sys.exit(f"truth.sh: cannot destroy the pool {name}\n{done.stderr.rstrip()}")
        time.sleep(POLL_S)
