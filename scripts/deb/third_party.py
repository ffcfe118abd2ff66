#!/usr/bin/env python3
"""Prints the crates of other authors that the program contains: name, version, licence, and the texts of their licences.

usage: third_party.py ROOT

Licences that several crates have word for word are printed once. Exit status: 0 done, 1 failed.
"""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = "poolwright"
# File names that begin so, in any case, have licences and notices.
LICENCE_FILES = ("license", "licence", "copying", "notice", "copyright", "unlicense")
RULE = "=" * 79


def main():
    metadata = json.loads(subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu",
         "--manifest-path", Path(sys.argv[1]) / "Cargo.toml"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    crates = [package for package in linked(metadata) if package["source"] is not None]
    crates.sort(key=lambda package: (package["name"], package["version"]))
    print("Crates of other authors in the program:\n")
    for crate in crates:
        print(f"{crate['name']} {crate['version']}: {crate['license'] or 'see its licence below'}")
    owners = {}
    for crate in crates:
        for text in licence_texts(crate):
            owners.setdefault(text, []).append(f"{crate['name']} {crate['version']}")
    for text, names in owners.items():
        print(f"\n{RULE}\n{', '.join(names)}\n{RULE}\n\n{text}")


def linked(metadata):
    """The packages that the program is built from: its normal dependencies, directly and indirectly."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    members = set(metadata["workspace_members"])
    todo = [key for key in members if packages[key]["name"] == PROGRAM]
    found = set()
    while todo:
        key = todo.pop()
        if key in found:
            continue
        found.add(key)
        todo += [dependency["pkg"] for dependency in nodes[key]["deps"]
                 if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
    return [packages[key] for key in found]


def licence_texts(crate):
    """The texts of the licence files in the crate's top directory, without trailing spaces."""
    directory = Path(crate["manifest_path"]).parent
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.name.lower().startswith(LICENCE_FILES))
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        yield "\n".join(line.rstrip() for line in text.splitlines()).strip()


main()
