#!/usr/bin/env bash
# What drives the lab's databases: generators, parsers, and each driver on a little data where its database is installed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

cd "$POOLWRIGHT_ROOT"
PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -s workloads/lab/tests
