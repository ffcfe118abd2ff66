#!/usr/bin/env bash
# Builds and tests the lab's JVM drivers. One suite of tests runs for each engine of the key-value store.
# lab-drivers.sh, which runs later, uses the drivers that this script builds.
#
# usage: scripts/tests/jvm-drivers.sh
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."
command -v mvn >/dev/null 2>&1 || {
    echo "not run: Maven is not installed (scripts/install.sh --for lab)"
    exit 0
}
scripts/lab/fetch.sh --test
