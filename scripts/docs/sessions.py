#!/usr/bin/env python3
"""Runs the console blocks of pages of the documentation, and compares what the commands print with what the pages show.

usage: sessions.py [--all] [--rewrite] PAGE...

The blocks of a page run in order, in one shell, in a scratch directory, with the program poolwright of PATH. Paths below /var/tmp
and /mnt become paths below the scratch directory. A shown line and a printed line agree if they differ only in their numbers, in
the widths of columns and in the mark of the best cell; a line "[…]" stands for any number of lines.

`tune` and `confirm` take minutes, so that without --all their blocks do not run: the script only looks up their options in
docs/commands.md. With --rewrite, the page receives the numbers of this run.

The page's recordings need root. A user without root, or without the program sqlite3, gets a note, and nothing runs.

Exit status: 0 the pages agree or nothing could run, 1 a page disagrees or a command failed, 2 wrong usage.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Time limit of the commands of one page, in seconds.
LIMIT = 600
LIMIT_ALL = 3600
ELISION = "[…]"
SLOW = re.compile(r"\bpoolwright (tune|confirm)\b")
MARK = "\x01end "
NUMBER = re.compile(r"[+−-]?\d[\d,.]*(?: ?(?:%|x|[KMGT]|[mµn]?s|B|h|min)(?![A-Za-z]))?(?:/s)?")


@dataclass
class Command:
    """A command of a block and the lines that the page shows after it, with their numbers in the page."""

    text: str
    line: int
    shown: list[str] = field(default_factory=list)


def commands(page: list[str]) -> list[Command]:
    """Returns the commands of the page's console blocks."""
    found: list[Command] = []
    inside = False
    for number, line in enumerate(page):
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append(Command(line[2:], number))
        elif inside:
            found[-1].shown.append(line)
    return found


def shape(line: str) -> str:
    """Returns the line with `#` for each number, without marks, and with single spaces."""
    line = NUMBER.sub("#", line.replace("*", " "))
    line = re.sub(r"─+", "─", line)
    return " ".join(line.split())


def align(shown: list[str], printed: list[str]) -> list[str] | None:
    """Returns the shown lines with the numbers that were printed, or None if the lines disagree."""
    result: list[str] = []
    at = 0
    skipping = False
    for line in shown:
        if line == ELISION:
            skipping = True
            result.append(line)
            continue
        while skipping and at < len(printed) and shape(printed[at]) != shape(line):
            at += 1
        if at == len(printed) or shape(printed[at]) != shape(line):
            return None
        result.append(printed[at])
        at += 1
        skipping = False
    return result if skipping or at == len(printed) else None


def run(page: list[Command], scratch: Path, limit: int) -> tuple[dict[int, list[str]], dict[int, int]]:
    """Runs the commands in one shell. Returns the printed lines and the exit codes, by the commands' line numbers."""
    (scratch / "docs").symlink_to(ROOT / "docs")
    for name in ("tmp", "mnt", "state", "run"):
        (scratch / name).mkdir()
    script = []
    for command in page:
        text = command.text.replace("/var/tmp/", f"{scratch}/tmp/").replace("/mnt/", f"{scratch}/mnt/")
        script += [re.sub(r"\bsudo ", "", text), f"printf '\\n{MARK}%s %s\\n' {command.line} $?"]
    environment = dict(
        os.environ,
        USER=os.environ.get("USER", "root"),
        COLUMNS="100",
        NO_COLOR="1",
        POOLWRIGHT_DIR=f"{scratch}/tmp/shop",
        POOLWRIGHT_STATE_DIR=f"{scratch}/state",
        POOLWRIGHT_RUNTIME_DIR=f"{scratch}/run",
    )
    output = scratch / "output"
    with open(output, "wb") as out:
        shell = subprocess.Popen(
            ["bash", "-c", "\n".join(script)], cwd=scratch, env=environment, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
        try:
            shell.wait(limit)
        except subprocess.TimeoutExpired:
            print(f"sessions.py: the commands did not end within {limit} s", file=sys.stderr)
        finally:
            # Also ends the page's background commands.
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            shell.wait()
    text = output.read_text(errors="replace")
    text = text.replace(f"{scratch}/tmp/", "/var/tmp/").replace(f"{scratch}/mnt/", "/mnt/")
    printed: dict[int, list[str]] = {}
    codes: dict[int, int] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith(MARK):
            number, code = line[len(MARK):].split()
            while lines and not lines[-1]:
                lines.pop()
            printed[int(number)], codes[int(number)] = lines, int(code)
            lines = []
        else:
            lines.append(line.rstrip())
    return printed, codes


def without_trailing_blanks(lines: list[str]) -> list[str]:
    """Returns the lines without the blank lines at their end."""
    lines = list(lines)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def unknown_options(text: str, reference: str) -> list[str]:
    """Returns the options of `poolwright VERB` in the command that the reference's section of the verb does not have."""
    verb = SLOW.search(text)
    assert verb
    section = re.search(rf"^## `?poolwright {verb[1]}\b.*?(?=^## |\Z)", reference, re.M | re.S)
    if not section:
        return [f"the verb {verb[1]}"]
    used = re.findall(r"(?<!\S)--?[a-z][a-z-]*", text[verb.end():])
    return [option for option in used if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", section[0])]


def check(path: Path, everything: bool, rewrite: bool) -> bool:
    """Runs the commands of a page. Returns whether the page agrees with them."""
    lines = path.read_text().split("\n")
    found = commands(lines)
    reference = (ROOT / "docs/commands.md").read_text()
    good = True
    for command in found:
        if SLOW.search(command.text):
            for option in unknown_options(command.text, reference):
                print(f"{path}:{command.line + 1}: docs/commands.md does not have {option}", file=sys.stderr)
                good = False
    to_run = [command for command in found if everything or not SLOW.search(command.text)]
    scratch = Path(tempfile.mkdtemp(prefix="poolwright-sessions."))
    try:
        printed, codes = run(to_run, scratch, LIMIT_ALL if everything else LIMIT)
    finally:
        for mount in (scratch / "mnt").iterdir():
            subprocess.run(["umount", mount], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(scratch, ignore_errors=True)
    for command in reversed(to_run):
        shown = without_trailing_blanks(command.shown)
        actual = printed.get(command.line)
        code = codes.get(command.line)
        aligned = None if actual is None or code != 0 else align(shown, actual)
        if aligned is None:
            good = False
            print(f"{path}:{command.line + 1}: $ {command.text}", file=sys.stderr)
            print(f"  exit code {code}; printed:" if actual is not None else "  did not end", file=sys.stderr)
            print("".join(f"    {line}\n" for line in actual or []), file=sys.stderr)
        elif rewrite:
            lines[command.line + 1:command.line + 1 + len(shown)] = aligned
    if rewrite:
        path.write_text("\n".join(lines))
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="run tune and confirm as well")
    parser.add_argument("--rewrite", action="store_true", help="write the numbers of this run to the pages")
    parser.add_argument("pages", nargs="+", metavar="PAGE", type=Path)
    options = parser.parse_args()
    missing = [why for why, lacks in (
        ("root", os.geteuid() != 0),
        ("sqlite3", not shutil.which("sqlite3")),
        ("/dev/fuse", not os.path.exists("/dev/fuse")),
    ) if lacks]
    if missing:
        print(f"skipped: the console blocks of the documentation need {', '.join(missing)}")
        return 0
    agree = [check(page, options.all, options.rewrite) for page in options.pages]
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
