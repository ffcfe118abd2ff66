#!/usr/bin/env bash
# Tests the FUSE mount with real databases, public file-system test suites, and crashes (`make test-mount`).
#
# usage: scripts/test-mount.sh [--no-install] [--short]
#
#   --no-install   do not install missing packages
#   --short        one caching mode, less load, a few crashes: some minutes
#
# Installs the required packages (scripts/mount/install.sh), builds the program, and runs scripts/mount/databases.sh, suites.sh and
# crashes.sh in turn. Requires root and /dev/fuse. docs/mount-tests.md describes the tests and their results.
#
# Exit status: 0 all passed, 1 a part failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

INSTALL=yes
DATABASES=()
SUITES=()
CRASHES=(--kills 60 --cuts 60)
FAILED=()
# Time limit of a part in seconds.
PART_LIMIT=14400

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --no-install) INSTALL=no ;;
            --short)
                DATABASES=(--modes pages --seconds 2)
                SUITES=(--modes pages --seconds 1)
                CRASHES=(--kills 6 --cuts 6)
                ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift
    done
}

# part NAME ARGUMENT...: runs one of the scripts and remembers a failure.
part() {
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    limited "$PART_LIMIT" "$POOLWRIGHT_ROOT/scripts/mount/$name.sh" "$@" || FAILED+=("$name")
}

main() {
    parse_arguments "$@"
    [ $INSTALL = no ] || step "Install required packages" "$POOLWRIGHT_ROOT/scripts/mount/install.sh"
    part databases ${DATABASES[@]+"${DATABASES[@]}"}
    part suites ${SUITES[@]+"${SUITES[@]}"}
    part crashes "${CRASHES[@]}"
    [ ${#FAILED[@]} -eq 0 ] || die 1 "failed: ${FAILED[*]} (see above)"
}

main "$@"
