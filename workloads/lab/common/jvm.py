"""Drivers in Java: the program in workloads/lab checks the requirements and executes the Java virtual machine.

    from common import jvm

    jvm.main("orientdb", "poolwright.orientdb.Main")

The Java program gets the unchanged specification. This module uses two of its parameters: `heap`, in the spelling of -Xmx,
and `compiler`: `quick` for runs of seconds, in which the optimising compiler would take most of the time, or `all`.
"""

import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEAP = "1g"
PACKAGE = "default-jre-headless"
# Berkeley DB and OrientDB open a database only if they can find its file system. A minimal chroot lacks this file.
MOUNTS = "/etc/mtab"
COMPILERS = {"all": [], "quick": ["-XX:TieredStopAtLevel=1"]}


def main(driver, main_class, options=()):
    """The command line of docs/lab.md; `options` are those of the virtual machine."""
    name = os.path.basename(sys.argv[0])
    if sys.argv[1:] == ["--check"]:
        missing = list(check(driver))
        print(*missing, sep="\n", end="\n" if missing else "")
        sys.exit(1 if missing else 0)
    if sys.argv[1:] != ["run"]:
        sys.exit(f"usage: {name} --check | run (with the phase as JSON on stdin; docs/lab.md)")
    text = sys.stdin.read()
    try:
        spec = json.loads(text)
        command = java(driver, main_class, options, spec)
    except (ValueError, KeyError) as why:
        sys.exit(f"{name}: invalid specification on stdin ({why}); see docs/lab.md")
    hand_over(text)
    try:
        os.execvp(command[0], command)
    except OSError as why:
        sys.exit(f"{name}: cannot start java ({why}): apt install {PACKAGE}, or scripts/install.sh --for lab")


def check(driver, tools=ROOT / "target" / "lab", mounts=MOUNTS):
    """Yields a line for each missing requirement."""
    if not os.access(mounts, os.R_OK):
        yield f"{mounts} does not exist, so Java cannot find file systems: ln -s /proc/self/mounts {mounts}"
    if shutil.which("java") is None:
        yield f"java is not installed: apt install {PACKAGE}, or scripts/install.sh --for lab"
    if not (Path(tools) / "jvm" / driver / "fingerprint").exists():
        yield f"target/lab/jvm/{driver} is not built: scripts/lab/fetch.sh {driver}"


def java(driver, main_class, options, spec):
    """Returns the command that runs one phase."""
    libs = Path(spec["tools"]) / "jvm" / driver
    parameters = spec.get("parameters", {})
    heap = parameters.get("heap", HEAP)
    compiler = COMPILERS[parameters.get("compiler", "all")]
    # Allocate the whole heap at the start: the times at which it grows are random and would affect the figures.
    return ["java", f"-Xms{heap}", f"-Xmx{heap}", f"-Djava.io.tmpdir={spec['scratch']}", *compiler, *options,
            "-cp", f"{libs}/*", main_class]


def hand_over(text):
    """Makes `text` the stdin of the next program that this process executes."""
    file = os.memfd_create("specification")
    os.write(file, text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)
    os.close(file)
