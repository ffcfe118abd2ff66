"""Checks the layers: each crate's dependencies against the table in docs/architecture.md, the modules of each crate for cycles, and that
no test is left out.

usage: layers.py ROOT

A crate may depend on the workspace crates that the column "may use" names, and no others; a dependency that it names must be
there. Modules in one directory must not use each other in a circle; a module includes the modules below it, and what a module
and its parent use of each other does not count. Modules of tests are left out. A target that Cargo.toml excludes from the tests
(`test` or `doctest` is false, because building an empty test program takes time) must not contain any.

Exit status: 0 clean, 1 something was found, 2 wrong usage.
"""

import re
import sys
import tomllib
from pathlib import Path

PREFIX = "poolwright-"
ROW = re.compile(r"^\| `crates/(\w+)` \| .* \| (.*) \|$", re.MULTILINE)
# `use a::{b, c::{d, e as f}}`, flattened by `leaves`.
USE = re.compile(r"\b(pub(?:\([^)]*\))? )?use ([\w:{}*,\s]+);")
PATH = re.compile(r"\b(crate|super|self)((?:::\w+)+)")
COMMENT = re.compile(r"//[^\n]*|\"(?:\\[\s\S]|[^\"\\])*\"")
EXCLUDED = {"test": re.compile(r"#\[test\]|\bproptest!"), "doctest": re.compile(r"^\s*//[/!] ```", re.MULTILINE)}
TESTS = re.compile(r"#\[cfg\((?:all\()?test\b[^\n]*\nmod \w+ \{.*", re.DOTALL)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(sys.argv[1])
    found = [*dependencies(root), *left_out(root)]
    for crate in sorted((root / "crates").iterdir()):
        found += cycles(crate)
    for line in found:
        print(line)
    return 1 if found else 0


def dependencies(root):
    """A line for each crate whose Cargo.toml and row in the table differ."""
    crates = {path.parent.name: tomllib.loads(path.read_text()) for path in sorted(root.glob("crates/*/Cargo.toml"))}
    rows = dict(ROW.findall((root / "docs" / "architecture.md").read_text()))
    for crate, manifest in crates.items():
        if crate not in rows:
            yield f"docs/architecture.md: crates/{crate} has no row in the table of crates"
            continue
        actual = {name.removeprefix(PREFIX) for name in manifest.get("dependencies", {}) if name.startswith(PREFIX)}
        stated = set(re.findall(r"\w+", rows[crate])) & set(crates)
        if rows[crate] == "all below":
            stated = actual
        for name in sorted(actual - stated):
            yield f"crates/{crate}/Cargo.toml: depends on {name}, which docs/architecture.md does not allow"
        for name in sorted(stated - actual):
            yield f"docs/architecture.md: crates/{crate} may use {name}, and does not"
    for crate in sorted(set(rows) - set(crates)):
        yield f"docs/architecture.md: there is no crates/{crate}"


def left_out(root):
    """A line for each file with tests that its Cargo.toml excludes."""
    for manifest in sorted(root.glob("crates/*/Cargo.toml")):
        targets = tomllib.loads(manifest.read_text())
        for target in [targets.get("lib", {}), *targets.get("bin", [])]:
            top = manifest.parent / target.get("path", "src/lib.rs")
            sources = sorted(top.parent.rglob("*.rs")) if top.name in ("lib.rs", "main.rs") else [top]
            for key, mark in EXCLUDED.items():
                for source in sources if target.get(key) is False else ():
                    if mark.search(source.read_text()):
                        yield f"{source.relative_to(root)}: has tests, but {manifest.relative_to(root)} says {key} = false"


def cycles(crate):
    """A line for each circle of modules of one directory."""
    modules = read(crate / "src")
    edges = {}
    for path, text in modules.items():
        for used in sorted(uses(path, text, modules)):
            shared = 0
            while shared < min(len(path), len(used)) and path[shared] == used[shared]:
                shared += 1
            # One is the other's ancestor: no edge between two modules of one directory.
            if shared < len(path) and shared < len(used):
                edges.setdefault(path[: shared + 1], {}).setdefault(used[: shared + 1], path)
    for circle in circles({module: set(targets) for module, targets in edges.items()}):
        names = ", ".join("::".join(module) for module in circle)
        yield f"crates/{crate.name}: modules that use each other in a circle: {names}"


def read(src):
    """The text of each module by its path, without comments, strings and tests; the crate's root has the empty path."""
    modules = {}
    for file in sorted(src.rglob("*.rs")):
        path = file.relative_to(src).with_suffix("").parts
        if path[-1] == "tests":
            continue
        if path[-1] in ("mod", "lib", "main"):
            path = path[:-1]
        modules[path] = COMMENT.sub("", TESTS.sub("", file.read_text()))
    return modules


def uses(path, text, modules):
    """The modules that a module's text names."""
    found = set()
    for named in paths(text):
        target = resolve(path, named, modules)
        if target is not None and target != path:
            found.add(target)
    return found


def paths(text):
    """All paths from `crate`, `super` or `self`, those in `use` included."""
    for _, tree in USE.findall(text):
        yield from (leaf for leaf, _ in leaves(tree) if leaf[0] in ("crate", "super", "self"))
    for first, rest in PATH.findall(USE.sub("", text)):
        yield (first, *rest[2:].split("::"))


def leaves(tree):
    """The paths of a `use`, each with the name that it has here: `a::{b, c as d}` is a::b as b and a::c as d."""
    tree = re.sub(r"\s+", " ", tree).strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = tree.partition(" as ")
        parts = tuple(part for part in path.split("::") if part)
        yield parts, alias or (parts[-1] if parts else "")
        return
    prefix = tuple(part for part in head.split("::") if part.strip())
    depth, start, inner = 0, 0, rest[: rest.rindex("}")]
    for at, char in enumerate(inner + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if inner[start:at].strip():
                for path, alias in leaves(inner[start:at]):
                    yield (prefix if path == ("self",) else prefix + path), alias
            start = at + 1


def resolve(path, named, modules, depth=0):
    """The module that a path from `path` leads to: the longest beginning that is one, or what the last name is re-exported from."""
    at = list(path)
    names = list(named)
    if names[0] == "crate":
        at = []
    while names and names[0] in ("crate", "super", "self"):
        if names.pop(0) == "super" and at:
            at.pop()
    while names and (*at, names[0]) in modules:
        at.append(names.pop(0))
    here = tuple(at)
    if names and here in modules and depth < 8:
        for _, tree in USE.findall(modules[here]):
            for leaf, alias in leaves(tree):
                inside = leaf[0] in ("crate", "super", "self") or (*here, leaf[0]) in modules
                if alias == names[0] and inside:
                    leaf = leaf if leaf[0] in ("crate", "super", "self") else ("self", *leaf)
                    return resolve(here, leaf, modules, depth + 1)
    return here if here in modules else None


def circles(graph):
    """The strongly connected components of more than one module (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = []
            while True:
                component.append(stack.pop())
                if component[-1] == node:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


if __name__ == "__main__":
    sys.exit(main())
