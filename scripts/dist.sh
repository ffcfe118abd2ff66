#!/usr/bin/env bash
# Builds the release files in target/dist (`make dist`): a tar archive and a Debian package with one program for every x86-64 Linux with glibc
# 2.31 or later, their checksums, and a list of the components (SBOM).
#
# usage: scripts/dist.sh [--check]
#
#   --check   builds a second time in another directory, and compares the checksums. They differ today: the BPF program's line table has the
#             paths of its sources, and the machine code differs, for a reason that is not known
#
# Builds the last commit, not the working tree, with this machine's compilers against the C library of Debian 11, whose development packages
# are downloaded into target/dist/sysroot from the mirror that this machine uses. libelf, zlib, libblkid and libuuid become part of the
# program, as OpenZFS and libbpf are in every build. Needs no root.
#
# Exit status: 0 done, 1 failed (or the builds differ), 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/install.sh"
# shellcheck source=scripts/private_apt.sh
. "$POOLWRIGHT_ROOT/scripts/private_apt.sh"
cd "$POOLWRIGHT_ROOT"

DIST=$POOLWRIGHT_ROOT/target/dist
SYSROOT=$DIST/sysroot
# Its C library is the oldest one that the program supports.
SUITE=bullseye
GLIBC=2.31
SYSROOT_PACKAGES=(libc6 libc6-dev linux-libc-dev libcrypt-dev libcrypt1 libelf-dev zlib1g-dev libblkid-dev uuid-dev libtirpc-dev libssl-dev libssl1.1 libgcc-s1)
# What the program may load: parts of glibc, and the compiler's library.
LOADED='^(linux-vdso\.so\.1|libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|libgcc_s\.so\.1|ld-linux-x86-64\.so\.2)$'
VERSION=$(sed -n "s/^version = \"\(.*\)\"/\1/p" Cargo.toml)
NAME=poolwright-$VERSION-x86_64-linux

OPENZFS=$POOLWRIGHT_ROOT/target/openzfs/$(cat crates/openzfs/RELEASE)/source
EPOCH=$(git log -1 --format=%ct)

# The C library and the static libraries of Debian 11.
provide_sysroot() {
    local debs deb link
    [ "$(cat "$SYSROOT/ready" 2>/dev/null)" != "${SYSROOT_PACKAGES[*]}" ] || return 0
    check_release
    rm -rf "$SYSROOT" "$DIST/apt"
    APT=$DIST/apt
    write_source "$SUITE" main
    read_lists
    say "Downloading the C library of Debian 11 and static libraries."
    mkdir -p "$DIST/debs"
    (cd "$DIST/debs" && rm -f ./*.deb && private_apt apt-get download "${SYSROOT_PACKAGES[@]/%//$SUITE}") >"$APT/log" 2>&1 || {
        tail -n 5 "$APT/log" >&2
        die 1 "cannot download the packages of Debian 11 (apt's last lines are above)"
    }
    debs=("$DIST"/debs/*.deb)
    unpack_into "$SYSROOT" "${debs[@]}"
    # Absolute links lead out of the directory.
    find "$SYSROOT" -type l -lname '/*' | while IFS= read -r link; do ln -sfn "$SYSROOT$(readlink "$link")" "$link"; done
    # Without the shared libraries, the linker takes the static ones.
    find "$SYSROOT" \( -name 'libelf.so' -o -name 'libz.so' -o -name 'libblkid.so' -o -name 'libuuid.so' \) -delete
    for deb in "${debs[@]}"; do dpkg-deb -f "$deb" Package Version | sed 's/^[^ ]* //' | paste -sd ' '; done >"$SYSROOT/versions"
    rm -rf "$DIST/debs" "$APT"
    echo "${SYSROOT_PACKAGES[*]}" >"$SYSROOT/ready"
}

# compilers DIR SOURCE: writes programs that take the place of gcc: they use the C library of Debian 11, and leave no paths of this machine.
compilers() {
    local name libraries=$SYSROOT/usr/lib/x86_64-linux-gnu
    mkdir -p "$1"
    for name in gcc cc x86_64-linux-gnu-gcc; do
        # gcc would search the directories of this machine's libraries first.
        printf '#!/bin/sh\nexec /usr/bin/gcc --sysroot=%q -B%q -L%q -L%q -ffile-prefix-map=%q=. "$@"\n' \
            "$SYSROOT" "$libraries" "$libraries" "$SYSROOT/lib/x86_64-linux-gnu" "$2" >"$1/$name"
        chmod 755 "$1/$name"
    done
}

# build DIR: builds the program of the last commit in DIR/source, and the release files in DIR/files.
build() {
    local dir=$1 source=$1/source cargo=${CARGO_HOME:-$HOME/.cargo}
    rm -rf "$dir"
    mkdir -p "$dir/files"
    git clone --quiet --no-hardlinks "$POOLWRIGHT_ROOT" "$source"
    compilers "$dir/compilers" "$source"
    (
        cd "$source"
        unset CARGO_TARGET_DIR POOLWRIGHT_OPENZFS_ASSERTIONS
        export SOURCE_DATE_EPOCH="$EPOCH" PATH="$dir/compilers:$PATH" LC_ALL=C TZ=UTC
        export PKG_CONFIG_SYSROOT_DIR=$SYSROOT PKG_CONFIG_LIBDIR=$SYSROOT/usr/lib/x86_64-linux-gnu/pkgconfig:$SYSROOT/usr/share/pkgconfig
        export RUSTFLAGS="--remap-path-prefix=$source=. --remap-path-prefix=$cargo=cargo"
        # Sources that this machine already has need no second download.
        [ ! -x "$OPENZFS/configure" ] || export ZFS_SOURCE="$OPENZFS"
        # The tools that make the package.
        mkdir -p target "$POOLWRIGHT_ROOT/target/tools"
        ln -s "$POOLWRIGHT_ROOT/target/tools" target/tools
        cargo build --quiet --release --locked -p poolwright
        strip target/release/poolwright
        check_program target/release/poolwright
        archive "$dir"
        scripts/deb.sh --built "$dir/files/poolwright_$VERSION-1_amd64.deb"
        components >"$dir/files/$NAME.cdx.json"
    )
    (cd "$dir/files" && sha256sum -- * >"$dir/SHA256SUMS" && mv "$dir/SHA256SUMS" .)
}

# check_program FILE: it needs no newer C library, and loads no other libraries.
check_program() {
    local newest extra
    newest=$(objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
    [ "$(printf '%s\n' "$newest" "$GLIBC" | sort -V | tail -n 1)" = "$GLIBC" ] || die 1 "the program needs glibc $newest, newer than $GLIBC"
    extra=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' | grep -vE "$LOADED" || true)
    [ -z "$extra" ] || die 1 "the program loads ${extra//$'\n'/, }"
    say "The program needs glibc $newest or later, and loads only its libraries."
}

# archive DIR: the tar archive, in the layout of /usr/local.
archive() {
    local root=$1/root/$NAME
    DESTDIR=$root PREFIX=/ scripts/install-program.sh >/dev/null
    cp LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$root/"
    cp crates/openzfs/csrc/LICENSE "$root/LICENSE-CDDL"
    scripts/deb/third_party.py . >"$root/THIRD-PARTY-LICENSES"
    chmod -R u=rwX,go=rX "$root"
    tar -C "$1/root" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$EPOCH" -cf - "$NAME" \
        | gzip -9n >"$1/files/$NAME.tar.gz"
    rm -rf "$1/root"
}

# components: the crates and C libraries in the program, as CycloneDX 1.5.
components() { python3 scripts/dist/components.py . "$SYSROOT"; }

main_dist() {
    local check=no
    case ${1:-} in
        '') ;;
        --check) check=yes ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    [ "$(uname -m)" = x86_64 ] || die 1 "this script builds on x86-64 only"
    [ -z "$(git status --porcelain)" ] || say "The working tree has changes that are not committed; they are not built."
    step "The C library" provide_sysroot
    step "Build" build "$DIST/build"
    if [ $check = yes ]; then
        step "Second build" build "$DIST/second"
        diff "$DIST/build/files/SHA256SUMS" "$DIST/second/files/SHA256SUMS" || die 1 "the builds differ (above: files and checksums)"
        say "Both builds gave the same files."
        rm -rf "$DIST/second"
    fi
    rm -rf "$DIST/files"
    mv "$DIST/build/files" "$DIST/files"
    rm -rf "$DIST/build"
    say "In ${DIST#"$POOLWRIGHT_ROOT/"}/files:"
    (cd "$DIST/files" && du -h -- *)
}

main_dist "$@"
