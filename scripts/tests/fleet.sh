#!/usr/bin/env bash
# Tests the queries for fleets (queries/fleet): several hundred small traces with known events, and the answers of DuckDB compared
# with values that Python computes from the same events.
#
# DuckDB and pyarrow are in the Python environment of the tests (target/venv, or $POOLWRIGHT_VENV); without them, the test is skipped.
# If the program is built, a trace that it imported is part of the fleet, and is compared with `trace show`.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

PYTHON=${POOLWRIGHT_VENV:-$POOLWRIGHT_ROOT/target/venv}/bin/python3
PROGRAM=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
TESTS=$POOLWRIGHT_ROOT/scripts/tests
# Time limit of each step in seconds.
LIMIT=60
export PYTHONDONTWRITEBYTECODE=1

if ! "$PYTHON" -c 'import duckdb, pyarrow' 2>/dev/null; then
    say "SKIPPED: $PYTHON cannot import duckdb and pyarrow"
    exit 0
fi
SCRATCH=$(mktemp -d)
trap 'rm -rf -- "$SCRATCH"' EXIT

imported=()
if [ -x "$PROGRAM" ]; then
    limited $LIMIT "$PYTHON" "$TESTS/fleet.py" iolog "$SCRATCH/imported.log"
    mkdir -p "$SCRATCH/fleet"
    limited $LIMIT "$PROGRAM" trace import "$SCRATCH/imported.log" -o "$SCRATCH/fleet/imported.parquet" >/dev/null
    limited $LIMIT "$PROGRAM" trace show --json "$SCRATCH/fleet/imported.parquet" >"$SCRATCH/shown.json"
    imported=("$SCRATCH/shown.json")
else
    say "SKIPPED: the imported trace, because $PROGRAM does not exist"
fi
limited $LIMIT "$PYTHON" "$TESTS/fleet.py" generate "$SCRATCH"
limited $LIMIT "$PYTHON" "$TESTS/fleet.py" duckdb "$SCRATCH"
limited $LIMIT "$PYTHON" "$TESTS/fleet.py" compare "$SCRATCH" duckdb.json "${imported[@]}"
limited $LIMIT "$PYTHON" "$TESTS/fleet.py" compare "$SCRATCH" duckdb-batches.json
say "fleet: ok"
