"""Drivers that are Java: the program in workloads/lab checks that all is there and becomes the virtual machine.

    from common import jvm

    jvm.main("orientdb", "poolwright.orientdb.Main")

The specification goes on to the Java program as it came. Two parameters are for here: `heap`, as -Xmx takes it, and
`compiler`: `quick` for runs of seconds, whose time would else be the optimising compiler's, or `all`.
"""

import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEAP = "1g"
PACKAGE = "default-jre-headless"
# Berkeley DB and OrientDB do not open a database whose file system they cannot find. A bare chroot lacks this file.
MOUNTS = "/etc/mtab"
COMPILERS = {"all": [], "quick": ["-XX:TieredStopAtLevel=1"]}


def main(driver, main_class, options=()):
    """The command line of docs/lab.md; `options` are of the virtual machine."""
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
        sys.exit(f"{name}: stdin does not hold the object that docs/lab.md says ({why})")
    hand_over(text)
    try:
        os.execvp(command[0], command)
    except OSError as why:
        sys.exit(f"{name}: java cannot be started ({why}): apt install {PACKAGE}, or scripts/install.sh --for lab")


def check(driver, tools=ROOT / "target" / "lab", mounts=MOUNTS):
    """A line for each thing that is missing."""
    if not os.access(mounts, os.R_OK):
        yield f"{mounts} is not there, and Java finds no file system without it: ln -s /proc/self/mounts {mounts}"
    if shutil.which("java") is None:
        yield f"java is not installed: apt install {PACKAGE}, or scripts/install.sh --for lab"
    if not (Path(tools) / "jvm" / driver / "fingerprint").exists():
        yield f"target/lab/jvm/{driver} is not built: scripts/lab/fetch.sh {driver}"


def java(driver, main_class, options, spec):
    """The command that runs one phase."""
    libs = Path(spec["tools"]) / "jvm" / driver
    parameters = spec.get("parameters", {})
    heap = parameters.get("heap", HEAP)
    compiler = COMPILERS[parameters.get("compiler", "all")]
    # All of the heap from the start: when it grows depends on chance, and shows in the figures.
    return ["java", f"-Xms{heap}", f"-Xmx{heap}", f"-Djava.io.tmpdir={spec['scratch']}", *compiler, *options,
            "-cp", f"{libs}/*", main_class]


def hand_over(text):
    """The next program in this process reads `text` from its stdin."""
    file = os.memfd_create("specification")
    os.write(file, text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)
    os.close(file)
