#!/usr/bin/env bash
# The checks of names and layers that `make lint` runs.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

cd "$POOLWRIGHT_ROOT/scripts/lint/tests"
PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover
