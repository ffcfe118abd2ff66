#!/usr/bin/env bash
# Tests the statistics of scripts/truth.sh, and how it reads its inputs.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

cd "$POOLWRIGHT_ROOT/scripts/truth"
PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover
