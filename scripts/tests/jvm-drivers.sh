#!/usr/bin/env bash
# The tests of the lab's drivers in the JVM: among them one suite of the key-value store that every engine has to pass.
# Comes before lab-drivers.sh, which runs the drivers that this builds.
#
# usage: scripts/tests/jvm-drivers.sh
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."
command -v mvn >/dev/null 2>&1 || {
    echo "not run: Maven is not installed (scripts/install.sh --for lab)"
    exit 0
}
scripts/lab/fetch.sh --test
