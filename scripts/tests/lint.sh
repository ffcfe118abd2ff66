#!/usr/bin/env bash
# Tests the checks of names, layers, calls by path and links that `make lint` runs.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

cd "$POOLWRIGHT_ROOT/scripts/lint/tests"
PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover
