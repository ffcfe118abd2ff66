#!/usr/bin/env bash
# Tests the alert rules with Debian's Prometheus and Alertmanager: alerts_e2e.py says how. Skipped where no pool can be mounted or
# the packages cannot be downloaded.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
cd "$POOLWRIGHT_ROOT"

if [ ! -w /dev/fuse ] || ! unshare --mount true 2>/dev/null; then
    say "SKIPPED: /dev/fuse or mount namespaces cannot be used here"
    exit 0
fi
TOOLS=()
if ! command -v prometheus >/dev/null || ! command -v prometheus-alertmanager >/dev/null; then
    if ! can_unpack prometheus prometheus-alertmanager; then
        say "SKIPPED: Prometheus and Alertmanager are not installed, and apt does not know their packages"
        exit 0
    fi
    TOOLS=(--tools "$(unpacked prometheus prometheus-alertmanager)")
fi
PROGRAM=${CARGO_TARGET_DIR:-target}/release/poolwright
[ -x "$PROGRAM" ] || cargo build --release --locked -p poolwright
scripts/tests/alerts_e2e.py --program "$PROGRAM" "${TOOLS[@]}"
say "alerts-e2e: ok"
