#!/usr/bin/env bash
# Installs the missing packages and programs for the tests of the mount, on Debian 12 or 13.
#
# usage: scripts/mount/install.sh [--check]
#
#   --check   list what is missing, install nothing; exit status 1 if anything is missing
#
# Installs Debian packages, two Rust programs in target/tools (pjdfstest and fsx), and a Python environment with LMDB and the
# tests of its binding in target/venv-mount. Packages may start services (slapd, PostgreSQL), unless a policy-rc.d forbids it; the tests do
# not use these services.
#
# Exit status: 0 done, 1 failed or (with --check) something is missing, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

PACKAGES=(sqlite3 postgresql mariadb-server-core mariadb-client-core sysbench lmdb-utils rocksdb-tools slapd
    ldap-utils fio stress-ng dbench python3 python3-venv)
CRATES=(pjdfstest@0.2.2 fsx@0.3.2)
LMDB_VERSION=1.6.2
PYTEST_VERSION=8.4.2
VENV=$POOLWRIGHT_ROOT/target/venv-mount

# The package with CPython's own tests, which is named after the version.
testsuite() { echo "libpython$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-testsuite"; }

lmdb_and_its_tests() {
    python3 -m venv "$VENV"
    "$VENV/bin/pip" install --quiet "lmdb==$LMDB_VERSION" "pytest==$PYTEST_VERSION"
    "$VENV/bin/pip" download --quiet --no-deps --no-binary lmdb --dest "$VENV/source" "lmdb==$LMDB_VERSION"
    tar -xzf "$VENV/source/lmdb-$LMDB_VERSION.tar.gz" -C "$VENV/source" --strip-components=1 "lmdb-$LMDB_VERSION/tests"
}

# missing: prints a line for each missing item: "package NAME", "crate NAME@VERSION" or "venv".
missing() {
    local package crate
    for package in "${PACKAGES[@]}" "$(testsuite)"; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "package $package"
    done
    for crate in "${CRATES[@]}"; do
        [ -x "$POOLWRIGHT_ROOT/target/tools/bin/${crate%@*}" ] || echo "crate $crate"
    done
    if ! "$VENV/bin/python" -c 'import lmdb, pytest' 2>/dev/null || [ ! -d "$VENV/source/tests" ]; then echo venv; fi
}

main() {
    local kind name wanted packages=()
    case ${1:-} in
        '' | --check) ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    wanted=$(missing)
    [ -n "$wanted" ] || return 0
    if [ "${1:-}" = --check ]; then
        printf 'missing: %s\n' "$wanted"
        exit 1
    fi
    while read -r kind name; do
        [ "$kind" != package ] || packages+=("$name")
    done <<<"$wanted"
    if [ ${#packages[@]} -gt 0 ]; then
        say "Installing: ${packages[*]}"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
            -o DPkg::Lock::Timeout=300 "${packages[@]}" </dev/null
    fi
    while read -r kind name; do
        case $kind in
            crate) cargo install --locked --root "$POOLWRIGHT_ROOT/target/tools" "$name" ;;
            venv) lmdb_and_its_tests ;;
        esac
    done <<<"$wanted"
}

main "$@"
