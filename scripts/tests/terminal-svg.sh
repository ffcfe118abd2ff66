#!/usr/bin/env bash
# Tests scripts/docs/terminal-svg.py, and that docs/images/tune.svg is the image of docs/images/tune.txt.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SVG=$POOLWRIGHT_ROOT/scripts/docs/terminal-svg.py
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-svg.XXXXXX")
trap 'rm -rf -- "$SCRATCH"' EXIT

# draw TEXT: the image of a text with printf's escapes.
draw() { printf '%b' "$1" >"$SCRATCH/text"; "$SVG" "$SCRATCH/text" "$SCRATCH/svg" && cat "$SCRATCH/svg"; }

# expect DESCRIPTION TEXT PATTERN: the image of the text has a line that matches.
expect() { draw "$2" | grep -qE -- "$3" || die 1 "$1"; say "ok: $1"; }

expect 'a colour and bold become classes' '\033[1;32mChange\033[0m: data' 'class="bold green".*>Change<'
expect 'the part after a reset is plain' '\033[1mx\033[0m y' '<text x="[0-9.]+" y="[0-9]+"[^>]*> ?y<'
expect 'a carriage return overwrites the line' 'progress\rdone' '>done<'
expect 'characters of XML are escaped' 'a <b> & c' '>a &lt;b&gt; &amp; c<'
if draw 'progress\rdone' | grep -q progress; then die 1 'an overwritten text is drawn'; fi
python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$SCRATCH/svg"
say "ok: the image is well-formed"

if draw '\033[5A' >/dev/null 2>"$SCRATCH/errors"; then die 1 'an unknown escape sequence is accepted'; fi
grep -q 'unknown escape sequence' "$SCRATCH/errors" || die 1 'the message does not name the escape sequence'
say "ok: an unknown escape sequence is refused"

"$SVG" --title poolwright --columns 100 "$POOLWRIGHT_ROOT/docs/images/tune.txt" "$SCRATCH/tune.svg"
cmp -- "$SCRATCH/tune.svg" "$POOLWRIGHT_ROOT/docs/images/tune.svg" \
    || die 1 "docs/images/tune.svg is out of date: run scripts/docs/tune-picture.sh"
say "ok: docs/images/tune.svg is the image of docs/images/tune.txt"
