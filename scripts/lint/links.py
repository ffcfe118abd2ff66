"""Checks that every relative link of the Markdown files leads to a file, and its fragment to a heading there.

usage: links.py ROOT

Exit status: 0 all lead somewhere, 1 one does not.
"""

import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("http://", "https://", "mailto:")


def main():
    root = Path(sys.argv[1])
    names = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
                           stdout=subprocess.PIPE, text=True, check=True).stdout
    broken = [f"{name}: {why}" for name in names.split("\0") if (root / name).is_file() for why in broken_links(root / name)]
    print("\n".join(broken), end="\n" if broken else "")
    sys.exit(1 if broken else 0)


def broken_links(page):
    """A text for each link of the page that leads nowhere."""
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(ELSEWHERE):
            continue
        path, _, fragment = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            yield f"{link}: no such file"
        elif fragment and target.suffix == ".md" and fragment not in anchors(target):
            yield f"{link}: no such heading"


def anchors(page):
    """The headings as fragments: lower case, without punctuation, spaces as hyphens."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    main()
