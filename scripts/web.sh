#!/usr/bin/env bash
# Builds the web page of `poolwright serve` from web/ into crates/monitor/page, whose files are checked in: `make web`.
#
# usage: scripts/web.sh [--check | --test]
#
#   --check  install the pinned packages, check types, run the unit tests, build the page, and compare it with the files that are
#            checked in
#   --test   test the page in Chromium at three widths, against target/release/poolwright and a mounted pool under load
#            (make test-web). Pictures are in target/web-screenshots.
#
# Needs Node.js 20.19 or newer with npm, and for --test /dev/fuse and Chromium. POOLWRIGHT names another program; POOLWRIGHT_PAGE
# a directory whose files are tested instead of those in the program.
#
# Exit status: 0 success, 1 failure, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

PAGE=$POOLWRIGHT_ROOT/crates/monitor/page
# A run takes two minutes on two cores that do nothing else.
TEST_LIMIT=900

need_node() {
    command -v npm >/dev/null 2>&1 || die 1 "npm is missing: install Node.js 20.19 or newer, and npm"
    node -e 'const [major, minor] = process.versions.node.split(".").map(Number);
        process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' ||
        die 1 "Node.js $(node --version) is too old: version 20.19 or newer is needed"
}

install_packages() { npm ci --ignore-scripts; }

# Installs the packages unless those of the lock file are there.
have_packages() {
    cmp -s package-lock.json node_modules/.poolwright-lock && return
    step "Install the packages of web/package-lock.json" install_packages
    cp package-lock.json node_modules/.poolwright-lock
}

check() {
    local built
    built=$(mktemp -d)
    # shellcheck disable=SC2064 # the directory is known now
    trap "rm -rf '$built'" EXIT
    step "Install the packages of web/package-lock.json" install_packages
    step "Types" npm run --silent check
    step "Unit tests" npm run --silent unit
    step "Build" npm run --silent build -- --outDir "$built" --emptyOutDir
    diff -r "$built" "$PAGE" >/dev/null ||
        die 1 "crates/monitor/page differs from what web/ builds: run scripts/web.sh, and check in the result"
    say "crates/monitor/page is what web/ builds."
}

browser_tests() {
    [ -w /dev/fuse ] || die 1 "/dev/fuse cannot be opened: the tests mount a pool"
    export POOLWRIGHT=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
    [ -x "$POOLWRIGHT" ] || die 1 "$POOLWRIGHT is missing: run make build"
    have_packages
    step "Browser tests" limited $TEST_LIMIT npm run --silent test
}

build() {
    have_packages
    step "Build" npm run --silent build
}

main() {
    local work
    case ${1:-} in
        '') work=build ;;
        --check) work=check ;;
        --test) work=browser_tests ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    need_node
    cd "$POOLWRIGHT_ROOT/web"
    $work
}

main "$@"
