"""Checks names of modules and types, and texts of library crates.

usage: names.py ROOT

- No module or type has a name of NOT_USED_NAMES.
- No text of a library crate names a flag of the command line (docs/commands.md lists them), except the hints of its errors (`fn hint`,
  crates/base/src/reported_error.rs). A literal that is a flag itself is an argument of a program, and allowed.
- A public type has a name that no other crate uses, unless scripts/lint/shared-names.txt lists it.

Exit status: 0 clean, 1 something was found, 2 wrong usage.
"""

import re
import sys
from pathlib import Path

TYPE = re.compile(r"^pub(?:\(crate\))? (?:struct|enum|trait|type) (\w+)", re.MULTILINE)
ANY_TYPE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait) (\w+)", re.MULTILINE)
# String literals, raw ones included, and what is not one: comments and character literals.
LITERAL = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^\\'])'|r(#*)"(.*?)"\1|"((?:\\.|[^"\\])*)\"""", re.DOTALL)
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
TEST_MODULE = re.compile(r"#\[cfg\((?:all\()?test\b[^\n]*\nmod \w+ \{.*", re.DOTALL)
# The hint of an error, whose flags help its reader.
HINT = re.compile(r"^( *)(?:pub )?fn hint\(.*?^\1}", re.DOTALL | re.MULTILINE)
# The command line, its texts, and programs for tests.
MAY_NAME_FLAGS = ("poolwright", "render", "devtools")
# Names that tell a new reader nothing, or have had several meanings.
NOT_USED_NAMES = {
    "Ask", "Between", "Eye", "Gate", "Ground", "Heard", "Holder", "Known", "Look", "Piece", "Place", "Press", "Reach", "Rung", "Scout",
    "Scribe", "Told", "Unsaid", "apart", "band", "census", "common", "eye", "ground", "heard", "helpers", "home", "known", "line", "look",
    "meaning", "misc", "piece", "place", "rung", "told", "unsaid", "util", "utils", "words",
}


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(sys.argv[1])
    shared = (root / "scripts" / "lint" / "shared-names.txt").read_text()
    found = sorted(check(root, NOT_USED_NAMES, shared_names(shared)))
    found += flags_in_libraries(root)
    for line in found:
        print(line)
    return 1 if found else 0


def shared_names(text):
    """The names in the file, one per line; a line that begins with # is a comment."""
    return {line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")}


def check(root, not_used, shared):
    """Yields a line for each name that breaks a rule."""
    crates_of = {}
    for file in sorted(root.glob("crates/*/src/**/*.rs")):
        name, text = file.relative_to(root), file.read_text()
        if file.stem in not_used:
            yield f"{name}: {file.stem!r} is not used as the name of a module (NOT_USED_NAMES in scripts/lint/names.py)"
        for type_name in ANY_TYPE.findall(text):
            if type_name in not_used:
                yield f"{name}: {type_name!r} is not used as the name of a type (NOT_USED_NAMES in scripts/lint/names.py)"
        for type_name in TYPE.findall(text):
            crates_of.setdefault(type_name, set()).add(file.relative_to(root).parts[1])
    for type_name, crates in crates_of.items():
        if len(crates) > 1 and type_name not in shared:
            yield f"{type_name}: a public type of {', '.join(sorted(crates))}; rename one, or add it to scripts/lint/shared-names.txt"
    for type_name in shared:
        if len(crates_of.get(type_name, ())) < 2:
            yield f"scripts/lint/shared-names.txt: {type_name} is not a public type of several crates"


def flags_in_libraries(root):
    """Yields a line for each text of a library crate that names a flag of the command line."""
    flags = set(FLAG.findall((root / "docs" / "commands.md").read_text()))
    for file in sorted(root.glob("crates/*/src/**/*.rs")):
        name = file.relative_to(root)
        if name.parts[1] in MAY_NAME_FLAGS or "tests" in name.parts or file.stem == "tests":
            continue
        text = HINT.sub(lambda found: "\n" * found.group().count("\n"), TEST_MODULE.sub("", file.read_text()))
        for literal in LITERAL.finditer(text):
            words = literal.group(2) or literal.group(3) or ""
            for flag in FLAG.findall(words):
                if flag in flags and words != flag:
                    line = text.count("\n", 0, literal.start()) + 1
                    yield f"{name}:{line}: a library's text names the flag {flag}; let the error's `hint` name it"


if __name__ == "__main__":
    sys.exit(main())
