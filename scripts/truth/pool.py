"""A pool that is mounted while a database is recorded on it."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# A server may still be writing its last messages when the datasets are to be unmounted.
UNMOUNT_S = 30.0
EXPORT_S = 120.0
LOOK_S = 0.1


@contextlib.contextmanager
def mounted(program, folder, datasets, pool, scratch):
    """A new pool whose datasets are mounted below `folder`, each on the existing empty folder of its name. When it ends the
    files are in the folders themselves.

    `datasets` are their properties, `pool` what the campaign says of pools."""
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


def _run(program, *words):
    done = subprocess.run([program, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"truth.sh: poolwright {words[0]} failed\n{done.stderr.rstrip()}")


def _unmount(folder):
    ends = time.monotonic() + UNMOUNT_S
    while folder.is_mount():
        late = time.monotonic() > ends
        subprocess.run(["umount", *(["-l"] if late else []), folder], stderr=subprocess.DEVNULL, check=False)
        if late:
            return
        time.sleep(LOOK_S)


def _destroy(program, name):
    """The mount's process flushes and exports first."""
    ends = time.monotonic() + EXPORT_S
    while (done := subprocess.run([program, "pool", "destroy", name], capture_output=True, text=True, check=False)).returncode:
        if time.monotonic() > ends:
            sys.exit(f"truth.sh: the pool {name} cannot be destroyed\n{done.stderr.rstrip()}")
        time.sleep(LOOK_S)
