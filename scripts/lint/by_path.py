"""Rejects calls by path that create, change, give away or remove files in the crates that run as root in directories of other users.

usage: by_path.py ROOT

A path is looked up again by each call, so the owner of a directory on it can lead root elsewhere between two calls. Such directories are
reached through `poolwright_base::directory::Directory` (crates/base/src/directory.rs). Where a directory is root's own, and other users
cannot change it, scripts/lint/by-path.txt allows a file's calls, with the reason:

    FILE CALL...: REASON

Tests and comments are left out. An entry that allows nothing is reported, so the list shrinks with the calls.

Exit status: 0 clean, 1 something was found, 2 wrong usage.
"""

import re
import sys
from pathlib import Path

# The crates that run as root in directories of other users.
CRATES = ("apply", "backup", "confirm", "dbms")
ALLOWED = Path("scripts/lint/by-path.txt")

CHANGES = "chown|lchown|set_permissions|create_dir|create_dir_all|rename|remove_file|remove_dir|remove_dir_all|hard_link|symlink|copy|write"
# A call of the standard library by its module, or one that is imported by its name: not a method, and not a definition.
QUALIFIED = re.compile(rf"\bfs::({CHANGES})\(")
IMPORTED = re.compile(r"(?<![\w.:])(?<!fn )(chown|lchown|set_permissions|create_dir|create_dir_all|hard_link|symlink)\(")
CREATE = re.compile(r"\bFile::(create|create_new)\(")
BUILDER = re.compile(r"\b(DirBuilder)::new\(")
# Opening for reading changes nothing.
OPEN = re.compile(r"\b(?:File::options|OpenOptions::new)\(\)(.*?)\.open\(", re.DOTALL)
WRITES = re.compile(r"\.(?:write|append|create|create_new|truncate)\(")
# The functions of crates/base/src/private.rs, and its outputs that are renamed into their place.
PRIVATE = re.compile(r"\bprivate::(create|create_new|write|make_dir|make_dirs)\(")
PART = re.compile(r"\b(Part)::create\(")
# System calls relative to the working directory, and those that only take a path.
AT = re.compile(r"\b((?:mkdir|unlink|rename|symlink|link|chmod|chown|utimens|mknod)at)\(\s*CWD\b")
ATTRIBUTES = re.compile(r"(?<![\w.:])(l?(?:set|remove)xattr)\(")
PATTERNS = [(QUALIFIED, ""), (IMPORTED, ""), (CREATE, "File::"), (BUILDER, ""), (PRIVATE, "private::"), (PART, ""), (AT, ""), (ATTRIBUTES, "")]

# String literals, raw ones included, comments and character literals.
NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^\\'])'|r(#*)".*?"\1|"(?:\\.|[^"\\])*\"""", re.DOTALL)
TEST_MODULE = re.compile(r"#\[cfg\((?:all\()?test\b[^\n]*\n(?:pub(?:\([^)]*\))? )?mod \w+ \{.*", re.DOTALL)
ENTRY = re.compile(r"^(\S+\.rs) ([\w:, ]+): (\S.*)$")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(sys.argv[1])
    found = check(root, (root / ALLOWED).read_text())
    for line in found:
        print(line)
    return 1 if found else 0


def check(root, allowed):
    """The lines that tell of calls that are not allowed, and of entries that allow nothing."""
    entries, found = {}, []
    for number, line in enumerate(allowed.splitlines(), 1):
        entry = ENTRY.match(line)
        if entry:
            entries |= {(entry.group(1), call): number for call in re.split(r"[,\s]+", entry.group(2))}
        elif line.strip() and not line.startswith("#"):
            found.append(f"{ALLOWED}:{number}: not an entry: FILE CALL...: REASON")
    used = set()
    for file in sorted(file for crate in CRATES for file in root.glob(f"crates/{crate}/src/**/*.rs")):
        name = file.relative_to(root)
        if "tests" in name.parts or file.stem.startswith("test"):
            continue
        for line, call in calls(file.read_text()):
            if (str(name), call) in entries:
                used.add((str(name), call))
            else:
                found.append(f"{name}:{line}: {call} by path; use poolwright_base::directory::Directory, or allow it in {ALLOWED}")
    unused = sorted((number, file, call) for (file, call), number in entries.items() if (file, call) not in used)
    return found + [f"{ALLOWED}:{number}: {file} has no {call} by path" for number, file, call in unused]


def calls(text):
    """The line and the name of each call by path, in the order of the text."""
    text = NO_CODE.sub(lambda of: re.sub(r"[^\n]", " ", of.group()), TEST_MODULE.sub("", text))
    found = [(of.start(), prefix + of.group(1)) for pattern, prefix in PATTERNS for of in pattern.finditer(text)]
    found += [(of.start(), "OpenOptions") for of in OPEN.finditer(text) if WRITES.search(of.group(1))]
    return [(text.count("\n", 0, start) + 1, call) for start, call in sorted(found)]


if __name__ == "__main__":
    sys.exit(main())
