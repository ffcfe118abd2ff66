#!/usr/bin/env bash
# Builds the Debian package target/debian/poolwright_VERSION_amd64.deb (`make deb`), for the release of Debian of this machine.
#
# usage: scripts/deb.sh [--quick | --built FILE | --check [RELEASE...]]
#
#   --quick   packages the program that is built already, with fast compression, in target/package/quick; checks the contents,
#             the unit, and lintian's errors; less than a minute
#   --built   packages the program that scripts/dist.sh has built as FILE
#   --check   also installs, runs, removes and purges the package in fresh systems of each RELEASE (bookworm, trixie: the default
#             is both); for another release than this machine's, builds the package in a system of that release (root; long)
#
# The package depends on the C libraries of the release of Debian on which it was built. OpenZFS is part of the program.
#
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/install.sh"
# shellcheck source=scripts/deb/verify.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/deb/verify.sh"
cd "$POOLWRIGHT_ROOT"

PROGRAM=${CARGO_TARGET_DIR:-target}/release/poolwright
WORK=target/package
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)

# The licences: packaging/debian/copyright, the texts that Debian does not install, and those of the crates.
write_licences() {
    local doc=$WORK/root/usr/share/doc/poolwright
    mkdir -p "$doc"
    {
        cat packaging/debian/copyright
        echo "License: MIT"
        sed '1,/^$/d' LICENSE-MIT | deb822_text
        echo
        echo "License: CDDL-1.0"
        deb822_text <crates/openzfs/csrc/LICENSE
    } >"$WORK/copyright"
    scripts/deb/third_party.py . | gzip -9n >"$doc/third-party-licenses.gz"
}

# Indents a text as the continuation of a field.
deb822_text() { sed -e 's/^/ /' -e 's/^ *$/ ./'; }

# Writes to WORK/root what the package installs, except the program, the unit and its options.
stage() {
    local root=$WORK/root
    rm -rf "$root"
    DESTDIR=$root PREFIX=/usr scripts/install-program.sh >/dev/null
    rm -r "${root:?}/usr/bin"
    write_licences
    mkdir -p "$root/usr/share/lintian/overrides"
    cp packaging/debian/lintian-overrides "$root/usr/share/lintian/overrides/poolwright"
    # The modes do not depend on the umask.
    chmod -R u=rwX,go=rX "$root"
}

# build_package FILE [OPTION...]: makes FILE from the built program. Two builds of one commit give the same file.
build_package() {
    local file=$1
    shift
    [ -x "$PROGRAM" ] || die 1 "$PROGRAM does not exist; build it with 'make build'"
    cargo_tool cargo-deb "$CARGO_DEB_VERSION"
    stage
    mkdir -p "${file%/*}"
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s) \
        PATH="$POOLWRIGHT_ROOT/target/tools/bin:$PATH" \
        cargo-deb --quiet --no-build --locked --strip -p poolwright --output "$file" "$@" >/dev/null
    say "Built $file ($(du -h "$file" | cut -f 1)): $(dpkg-deb -f "$file" Depends)"
}

quick() {
    local file=$WORK/quick/poolwright_$VERSION-1_amd64.deb
    step "Package" build_package "$file" --fast
    step "Verify" verify_package "$file"
}

full() {
    step "Build" cargo build --release --locked -p poolwright
    step "Package" build_package "target/debian/poolwright_$VERSION-1_amd64.deb"
    step "Verify" verify_package "target/debian/poolwright_$VERSION-1_amd64.deb"
}

deb_main() {
    case ${1:-} in
        '') full ;;
        --quick) quick ;;
        --built) build_package "${2:?}" --variant release; verify_package "$2" ;;
        --check) shift; full; scripts/deb/check.sh "$@" ;;
        -h | --help) usage_from "$0" ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
}

deb_main "$@"
