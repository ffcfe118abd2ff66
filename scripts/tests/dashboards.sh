#!/usr/bin/env bash
# Tests the checks of dashboards: they accept the shipped files, and report unknown fields, wrong values and wrong queries.
# Without Grafana's models or without promtool, its part is skipped.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
PYTHON=${POOLWRIGHT_VENV:-$POOLWRIGHT_ROOT/target/venv}/bin/python3
PROMTOOL=${PROMTOOL:-promtool}
SHIPPED=$POOLWRIGHT_ROOT/packaging/grafana

# changed STATEMENT: a directory with one dashboard, changed by a Python statement about `board` and its first graph, `panel`.
changed() {
    mkdir -p "$SCRATCH/changed"
    python3 - "$SHIPPED/poolwright-pools.json" "$SCRATCH/changed/poolwright-pools.json" "$1" <<'PYTHON'
import json, sys
board = json.load(open(sys.argv[1]))
panel = next(panel for panel in board["panels"] if panel["type"] == "timeseries")
exec(sys.argv[3])
json.dump(board, open(sys.argv[2], "w"))
PYTHON
}

# expect STATUS PATTERN WHAT [DIR]
expect() {
    local status=0
    "$POOLWRIGHT_ROOT/scripts/dashboards.sh" "${4:-$SCRATCH/changed}" >"$SCRATCH/out" 2>&1 || status=$?
    { [ $status = "$1" ] && grep -q -- "$2" "$SCRATCH/out"; } || die 1 "$3: status $status, and printed: $(cat "$SCRATCH/out")"
}

has_models=no has_promtool=no
! "$PYTHON" -c 'import grafana_foundation_sdk' 2>/dev/null || has_models=yes
! command -v "$PROMTOOL" >/dev/null 2>&1 || has_promtool=yes

if [ $has_models = yes ]; then
    expect 0 "Grafana's schema: ok" "the shipped dashboards" "$SHIPPED"
    changed 'panel["colour"] = "red"'
    expect 1 'colour is not a field' "an unknown field of a panel"
    changed 'panel["options"]["legend"]["displayMode"] = "tabel"'
    expect 1 "tabel" "an unknown value of an option"
    changed 'panel["fieldConfig"]["defaults"]["custom"]["lineWidth"] = "thick"'
    expect 1 "thick" "a text in the place of a number"
    changed 'panel["targets"][0]["format"] = "tables"'
    expect 1 "tables" "an unknown format of a query"
    changed 'board["panels"] = []'
    expect 1 'no panels' "an empty dashboard"
else
    say "SKIPPED: $PYTHON cannot import grafana_foundation_sdk"
fi
if [ $has_promtool = yes ]; then
    expect 0 'SUCCESS' "the shipped queries" "$SHIPPED"
    changed 'panel["targets"][0]["expr"] = "sum by (pool (up)"'
    expect 1 'FAILED' "a query that does not parse"
else
    say "SKIPPED: promtool is not installed"
fi
say "dashboards: ok"
