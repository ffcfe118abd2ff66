#!/usr/bin/env bash
# Builds the Debian package from the built program, and checks its files, licences and unit, and lintian's findings. Also tests that
# Prometheus's rules and Grafana's dashboards are installed if they exist, and that a program built with another libzpool is refused.
# `scripts/deb.sh --check` installs the package; that takes longer, and needs root.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
"$POOLWRIGHT_ROOT/scripts/deb.sh" --quick
