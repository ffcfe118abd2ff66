#!/usr/bin/env bash
# Tests the tables of scripts/truth.sh and the track record that it publishes.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

cd "$POOLWRIGHT_ROOT/scripts/truth"
PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover
