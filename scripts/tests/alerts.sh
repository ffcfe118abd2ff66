#!/usr/bin/env bash
# Tests the alert rules and the metrics with promtool. Without promtool, and without Debian's package of it, they are skipped.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

if ! command -v promtool >/dev/null 2>&1 && ! can_unpack prometheus; then
    say "SKIPPED: promtool is not installed, and apt does not know the package prometheus"
    exit 0
fi
"$POOLWRIGHT_ROOT/scripts/alerts.sh" --check
say "alerts: ok"
