#!/usr/bin/env bash
# Renders the documentation as a book with mdbook, after it has checked the links.
#
# usage: scripts/docs.sh
#
# The book is in target/book. If mdbook is not installed, it is built into target/tools (a few minutes, once).
#
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$POOLWRIGHT_ROOT"

VERSION=0.5.4
TOOLS=target/tools

case ${1:-} in
    '') ;;
    -h | --help) usage_from "$0"; exit 0 ;;
    *) die 2 "unknown argument '$1'; see --help" ;;
esac

mdbook=$(command -v mdbook || echo "$TOOLS/bin/mdbook")
if [ ! -x "$mdbook" ]; then
    say "mdbook $VERSION is not installed; building it into $TOOLS (a few minutes, once)."
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --no-default-features --features search \
        --root "$TOOLS" --target-dir "$TOOLS/build" --version "$VERSION" mdbook \
        || die 1 "mdbook could not be built (see above); check the network."
    rm -rf "$TOOLS/build"
fi
python3 scripts/lint/links.py .
"$mdbook" build
say "The book is target/book/index.html."
