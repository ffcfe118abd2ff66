#!/usr/bin/env bash
# Builds the Debian package from the built program, and checks its files, licences and unit, and lintian's findings.
# `scripts/deb.sh --check` installs the package; that takes longer, and needs root.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
"$POOLWRIGHT_ROOT/scripts/deb.sh" --quick
