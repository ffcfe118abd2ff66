#!/usr/bin/env python3
"""Writes an SVG image of a terminal that shows a text with ANSI colours.

usage: terminal-svg.py [--title TITLE] [--columns N] TEXT SVG

TEXT is UTF-8. Supported escape sequences are colours, bold, dim and "erase line"; a carriage return overwrites the line.
The image uses the reader's monospace font and follows the light or dark theme.

Exit status: 0 done, 1 the text is empty or has an unknown escape sequence, 2 wrong usage.
"""

import argparse
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

# Width and height of a character cell, in pixels at a font size of 14.
CELL_WIDTH, CELL_HEIGHT, MARGIN, TITLE_HEIGHT = 8.43, 19, 16, 34

# Foreground colours by SGR number: name, on a light and on a dark background.
COLOURS = {31: ("red", "#b3261e", "#ff7b72"), 32: ("green", "#1a7f37", "#56d364"), 33: ("yellow", "#7d5a00", "#e3b341"),
           34: ("blue", "#0550ae", "#79c0ff"), 35: ("magenta", "#8250df", "#d2a8ff"), 36: ("cyan", "#0b6a75", "#56d4dd")}
LIGHT = {"page": "#ffffff", "bar": "#e7eaee", "edge": "#c9d1d9", "text": "#1f2328", "faint": "#636c76"}
DARK = {"page": "#0d1117", "bar": "#21262d", "edge": "#30363d", "text": "#e6edf3", "faint": "#8d96a0"}

SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--title", default="")
    options.add_argument("--columns", type=int, default=0, help="width of the terminal (default: the longest line)")
    options.add_argument("text", type=Path)
    options.add_argument("svg", type=Path)
    given = options.parse_args()
    try:
        lines = [spans(line) for line in given.text.read_bytes().decode().rstrip().split("\n")]
        if lines == [[]]:
            raise ValueError("the text is empty")
    except (OSError, ValueError) as cause:
        sys.exit(f"terminal-svg.py: cannot draw {given.text}: {cause}")
    columns = max([given.columns, *(sum(len(text) for text, _ in line) for line in lines)])
    given.svg.write_text(image(lines, columns, given.title), encoding="utf-8")


def spans(line):
    """The visible parts of a line: pairs of a text and its set of classes."""
    line = line.rstrip("\r").rpartition("\r")[2]
    parts, style, position = [], frozenset(), 0
    for found in SEQUENCE.finditer(line):
        append(parts, line[position:found.start()], style)
        position = found.end()
        if found[2] == "m":
            style = restyled(style, found[1])
        elif found[2] == "K":
            parts.clear()
        else:
            raise ValueError(f"unknown escape sequence {found[0]!r}")
    append(parts, line[position:], style)
    return parts


def append(parts, text, style):
    if "\x1b" in text:
        raise ValueError(f"unknown escape sequence in {text!r}")
    if text:
        parts.append((text, style))


def restyled(style, numbers):
    """The classes after a "select graphic rendition" sequence."""
    names = {name for name, _, _ in COLOURS.values()}
    for number in [int(n or 0) for n in numbers.split(";")]:
        if number == 0:
            style = frozenset()
        elif number in (1, 2):
            style |= {"bold" if number == 1 else "faint"}
        elif number == 22:
            style -= {"bold", "faint"}
        elif number == 39:
            style -= names
        elif number in COLOURS or number - 60 in COLOURS:
            style = (style - names) | {COLOURS.get(number, COLOURS.get(number - 60))[0]}
        elif number == 90:
            style |= {"faint"}
        else:
            raise ValueError(f"unknown colour {number}")
    return style


def image(lines, columns, title):
    width = round(columns * CELL_WIDTH + 2 * MARGIN)
    height = TITLE_HEIGHT + len(lines) * CELL_HEIGHT + 2 * MARGIN - 6
    body = [f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            f'<path class="bar" d="M0.5 {TITLE_HEIGHT}V8.5a8 8 0 0 1 8-8H{width - 8.5}a8 8 0 0 1 8 8V{TITLE_HEIGHT}z"/>',
            f'<text class="faint" x="{width / 2:g}" y="22" text-anchor="middle">{escape(title)}</text>']
    for row, line in enumerate(lines):
        column, y = 0, TITLE_HEIGHT + MARGIN + row * CELL_HEIGHT + 10
        for text, style in line:
            body += [drawn(part, at, y, style) for part, at in words(text, column)]
            column += len(text)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>", f"<style>{stylesheet()}</style>", *body, "</svg>", ""])


def words(text, column):
    """Splits a text at runs of two or more spaces; returns the parts with their columns. Tables stay aligned in any font."""
    return [(found[0], column + found.start()) for found in re.finditer(r"\S+(?: \S+)*", text)]


def drawn(text, column, y, style):
    classes = f' class="{" ".join(sorted(style))}"' if style else ""
    x, length = MARGIN + column * CELL_WIDTH, len(text) * CELL_WIDTH
    return f'<text{classes} x="{x:.1f}" y="{y}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'


def stylesheet():
    def theme(names, colours):
        rules = [f".page{{fill:{names['page']};stroke:{names['edge']}}}.bar{{fill:{names['bar']};stroke:{names['edge']}}}",
                 f"text{{fill:{names['text']}}}.faint{{fill:{names['faint']}}}"]
        return "".join(rules + [f".{name}{{fill:{colour}}}" for name, colour in colours])
    return ("text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}"
            ".bold{font-weight:bold}"
            + theme(LIGHT, [(name, light) for name, light, _ in COLOURS.values()])
            + "@media(prefers-color-scheme:dark){" + theme(DARK, [(name, dark) for name, _, dark in COLOURS.values()]) + "}")


if __name__ == "__main__":
    main()
