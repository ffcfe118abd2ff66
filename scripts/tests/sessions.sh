#!/usr/bin/env bash
# Runs the console blocks of the README and of the tutorial: what the commands print must be what the pages show, numbers aside.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

PATH=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release:$PATH
cd "$POOLWRIGHT_ROOT"
scripts/docs/sessions.py README.md docs/tutorial.md
say "ok: the console blocks of README.md and docs/tutorial.md"
