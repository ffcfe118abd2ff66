#!/usr/bin/env bash
# Real databases, public file-system suites and crashes on a mounted pool: what `make test-mount` does.
#
# usage: scripts/test-mount.sh [--no-install] [--short]
#
#   --short   one way of caching, less load, a few crashes: some minutes
#
# Installs what the tests use (scripts/mount/install.sh), builds, and runs scripts/mount/databases.sh, suites.sh and
# crashes.sh one after the other. Needs root and /dev/fuse. What passes and what does not is in docs/mount-tests.md.
# Exit status: 0 all passed, 1 something failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

INSTALL=yes
DATABASES=()
SUITES=()
CRASHES=(--kills 60 --cuts 60)
FAILED=()
# Seconds that a part may take.
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

# part NAME ARGUMENTS...: one of the scripts; the others run whatever becomes of it.
part() {
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    limited "$PART_LIMIT" "$POOLWRIGHT_ROOT/scripts/mount/$name.sh" "$@" || FAILED+=("$name")
}

main() {
    parse_arguments "$@"
    [ $INSTALL = no ] || step "Install what the tests use" "$POOLWRIGHT_ROOT/scripts/mount/install.sh"
    part databases ${DATABASES[@]+"${DATABASES[@]}"}
    part suites ${SUITES[@]+"${SUITES[@]}"}
    part crashes "${CRASHES[@]}"
    [ ${#FAILED[@]} -eq 0 ] || die 1 "failed: ${FAILED[*]} (their messages are above)"
}

main "$@"
