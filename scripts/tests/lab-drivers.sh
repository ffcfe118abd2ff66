#!/usr/bin/env bash
# Tests the lab's drivers: generators, parsers, and each driver with little data if its database is installed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

cd "$POOLWRIGHT_ROOT"
PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -s workloads/lab/tests
