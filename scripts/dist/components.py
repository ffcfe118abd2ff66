#!/usr/bin/env python3
"""Prints the components of the released program as a CycloneDX 1.5 document: its crates, and the C libraries that are part of it.

usage: components.py ROOT SYSROOT

SYSROOT is the directory of Debian's static libraries (scripts/dist.sh). Exit status: 0 done, 1 failed.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "deb"))
import third_party  # noqa: E402

# Static libraries of Debian: the name in the document, the packages that have them, and their licences.
LIBRARIES = [
    ("libelf", "libelf-dev", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
    ("zlib", "zlib1g-dev", "Zlib"),
    ("libblkid", "libblkid-dev", "LGPL-2.1-or-later"),
    ("libuuid", "uuid-dev", "BSD-3-Clause"),
    ("libtirpc", "libtirpc-dev", "BSD-3-Clause"),
]


def main():
    root, sysroot = Path(sys.argv[1]), Path(sys.argv[2])
    metadata = json.loads(subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu",
         "--manifest-path", root / "Cargo.toml"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    lock = tomllib.loads((root / "Cargo.lock").read_text())
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}
    crates = sorted(third_party.linked(metadata), key=lambda package: (package["name"], package["version"]))
    version = next(crate["version"] for crate in crates if crate["name"] == third_party.PROGRAM)
    components = [crate_component(crate, checksums) for crate in crates if crate["source"] is not None]
    components.append(library("openzfs", (root / "crates/openzfs/RELEASE").read_text().strip(), "CDDL-1.0"))
    components += [library(name, versions(sysroot)[package], licence) for name, package, licence in LIBRARIES]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": third_party.PROGRAM, "version": version}},
        "components": components,
    }
    print(json.dumps(document, indent=1, sort_keys=True))


def crate_component(crate, checksums):
    component = library(crate["name"], crate["version"], crate["license"])
    component["purl"] = f"pkg:cargo/{crate['name']}@{crate['version']}"
    checksum = checksums.get((crate["name"], crate["version"]))
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return component


def library(name, version, licence):
    component = {"type": "library", "name": name, "version": version}
    if licence:
        component["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    return component


def versions(sysroot):
    """The versions of Debian's packages, from the file that scripts/dist.sh has written: a package and its version in each line."""
    lines = (sysroot / "versions").read_text().splitlines()
    return dict(re.fullmatch(r"(\S+) (\S+)", line).groups() for line in lines)


if __name__ == "__main__":
    main()
