#!/usr/bin/env bash
# Builds OpenZFS's user-space library from the release's sources, for the engine (crates/openzfs).
#
# usage: scripts/openzfs.sh [--release RELEASE] [--assertions]
#
#   --release RELEASE  the release of OpenZFS (the one in crates/openzfs/RELEASE, or POOLWRIGHT_OPENZFS): 2.3.2 or 2.4.3
#   --assertions       with OpenZFS's assertions, for tests (also by POOLWRIGHT_OPENZFS_ASSERTIONS=1). Programs for users have none
#
# Cargo runs this script when it builds the engine (crates/openzfs/build.rs).
#
# Environment: ZFS_SOURCE names a directory with the release's sources, unpacked. Otherwise the script downloads Debian's source
# package zfs-linux with apt, from the mirror that this machine uses, into target/openzfs. It needs no root, and changes neither
# this machine's sources nor its packages. The tarball's checksum is in this script.
#
# The result is target/openzfs/RELEASE: headers in `source`, and libopenzfs.a in `plain` or `assertions`. The engine's build links
# it statically. A second run does nothing. A build takes a minute and a half.
#
# The engine has its own layer for threads, time, files and memory (crates/openzfs/csrc/kernel). So the library is made without
# some of OpenZFS's files (LEFT_OUT), with weak or renamed definitions in others (WEAKENED, WRAPPED, REDIRECTED), and with a header that is included
# first (csrc/kernel/interpose.h).
#
# Exit status: 0 done or up to date, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/install.sh"
# shellcheck source=scripts/private_apt.sh
. "$POOLWRIGHT_ROOT/scripts/private_apt.sh"

ENGINE=$POOLWRIGHT_ROOT/crates/openzfs
INTERPOSE=$ENGINE/csrc/kernel/interpose.h
RELEASE=${POOLWRIGHT_OPENZFS:-$(cat "$ENGINE/RELEASE")}
KIND=plain
[ "${POOLWRIGHT_OPENZFS_ASSERTIONS:-}" != 1 ] || KIND=assertions

# Release, Debian suite with its source package, checksum of the tarball (SHA-256).
RELEASES="
2.3.2 bookworm-backports 80da628a9543ec3355bf410617450e167706948ceb287541455a1b8d87b8758a
2.4.3 trixie-backports 1f08f2d154f5189b5f1382848a32667b3d34066145b474c49cd3d41a5fba59a7
"

# Members of libzpool.a that the engine replaces or does not need.
LEFT_OUT=(taskq)
# Members of libzpool.a of which the engine replaces some functions.
WEAKENED=(kernel arc_os abd_os arc zfs_fm)
# Members and variables that the engine sets, and that are static in some releases.
EXPORTED=(vdev_queue:zfs_vdev_async_write_max_active)
# Members and functions that the engine replaces by its own, which call the original as openzfs_NAME.
WRAPPED=(
    txg:txg_wait_synced
    zio_compress:zio_compress_data zio_compress:zio_decompress_data
    zio_checksum:zio_checksum_compute zio_checksum:zio_checksum_error
)
# Members whose calls of a function go to the engine's pw_NAME, which may call the original.
REDIRECTED=(
    dbuf:cityhash4 dmu_objset:cityhash2
    zap_micro:dmu_buf_will_dirty zap_micro:dmu_buf_rele zap_micro:dnode_add_ref
)

parse_openzfs_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --release) RELEASE=${2:-}; shift ;;
            --assertions) KIND=assertions ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift
    done
    read -r _ SUITE CHECKSUM <<<"$(grep "^$RELEASE " <<<"$RELEASES" || true)"
    [ -n "${CHECKSUM:-}" ] || die 2 "unknown release '$RELEASE': this script builds $(awk 'NF { printf "%s%s", sep, $1; sep = ", " }' <<<"$RELEASES")"
    DIR=$POOLWRIGHT_ROOT/target/openzfs/$RELEASE
}

# What the library depends on.
fingerprint() { { cat "$POOLWRIGHT_ROOT/scripts/openzfs.sh" "$INTERPOSE"; echo "$RELEASE ${ZFS_SOURCE:-}"; } | sha256sum; }

check_compiler() {
    local missing=() package
    for package in gcc make zlib1g-dev uuid-dev libblkid-dev libssl-dev libtirpc-dev; do
        [ -n "$(installed_version "$package")" ] || missing+=("$package")
    done
    ! command -v dpkg-query >/dev/null || [ ${#missing[@]} -eq 0 ] || die 1 "OpenZFS cannot be built: ${missing[*]} not installed
hint: scripts/install.sh installs them"
}

# Downloads the tarball and checks it.
download() {
    local tarball=$DIR/zfs-linux_$RELEASE.orig.tar.gz
    if ! sha256sum --status -c <<<"$CHECKSUM  $tarball" 2>/dev/null; then
        check_release
        say "Downloading the sources of OpenZFS $RELEASE (Debian's source package zfs-linux, 34 MB)."
        APT=$DIR/apt
        write_source "$SUITE" contrib
        sed -i 's/^Types: deb$/Types: deb-src/' "$APT/private.sources"
        read_lists
        local version
        version=$(private_apt apt-cache showsrc zfs-linux 2>/dev/null | sed -n "s/^Version: \($RELEASE-.*\)/\1/p" | head -n 1)
        [ -n "$version" ] || die 1 "$SUITE has no source of OpenZFS $RELEASE any more (it has $(private_apt apt-cache showsrc zfs-linux 2>/dev/null \
            | sed -n 's/^Version: //p' | paste -sd' '))
hint: unpack that release's zfs-$RELEASE.tar.gz and set ZFS_SOURCE to its directory"
        # apt reports failure if it cannot fetch the signature, so the checksum decides.
        (cd "$DIR" && private_apt apt-get source --download-only --tar-only "zfs-linux=$version") >"$APT/log" 2>&1 || true
        rm -f "$DIR"/*.asc
        sha256sum --status -c <<<"$CHECKSUM  $tarball" 2>/dev/null || {
            tail -n 5 "$APT/log" >&2
            die 1 "cannot download the sources of OpenZFS $RELEASE, or their checksum is wrong (apt's last lines are above)
hint: check the network, or unpack zfs-$RELEASE.tar.gz and set ZFS_SOURCE to its directory"
        }
        rm -rf "$APT"
    fi
    tar -xzf "$tarball" -C "$DIR/source.new" --strip-components=1
    rm "$tarball"
}

# Puts the sources into DIR/source.
provide_source() {
    rm -rf "$DIR/source.new"
    mkdir -p "$DIR/source.new"
    if [ -n "${ZFS_SOURCE:-}" ]; then
        [ -x "$ZFS_SOURCE/configure" ] || die 1 "$ZFS_SOURCE contains no sources of OpenZFS (no configure)
hint: unpack a release's tarball; a checkout of the repository needs ./autogen.sh first"
        cp -a "$ZFS_SOURCE/." "$DIR/source.new/"
    else
        download
    fi
    local found
    found=$(sed -n 's/^Version: *//p' "$DIR/source.new/META")
    [ "$found" = "$RELEASE" ] || die 1 "these sources are those of OpenZFS $found, not $RELEASE"
    rm -rf "$DIR/source"
    mv "$DIR/source.new" "$DIR/source"
}

# compile: builds libzpool.a and what it needs, in DIR/build.
compile() {
    local flags="-DNDEBUG" jobs
    [ $KIND = plain ] || flags="-DDEBUG -UNDEBUG -DZFS_DEBUG"
    jobs=$(nproc)
    rm -rf "$DIR/build"
    mkdir -p "$DIR/build"
    (
        cd "$DIR/build"
        ../source/configure --quiet --with-config=user --disable-pyzfs --disable-dependency-tracking --disable-shared --enable-static \
            --with-pic CFLAGS='-O2 -g1'
        make -s -j "$jobs" LIBZPOOL_CPPFLAGS="$flags -include $INTERPOSE" libzpool.la
    ) >"$DIR/log" 2>&1 || {
        tail -n 25 "$DIR/log" >&2
        die 1 "cannot build OpenZFS $RELEASE (see above and ${DIR#"$POOLWRIGHT_ROOT/"}/log)"
    }
}

# collect: puts the objects into one library.
collect() {
    local objects=$DIR/build/objects name
    mkdir -p "$objects"
    (
        cd "$objects"
        for name in zpool nvpair zutil; do ar x "$DIR/build/.libs/lib$name.a"; done
        # Of libtirpc (BSD), only the data representation: as a shared library, it would load Kerberos. Its functions are called
        # openzfs_NAME, because AddressSanitizer replaces functions of the original names by calls to a shared library.
        name=$(gcc -print-file-name=libtirpc.a)
        ar t "$name" | grep -E '^libtirpc_la-xdr(_array|_float|_mem|_reference)?\.o$' | xargs ar x "$name"
        nm --defined-only --extern-only --format=posix libtirpc_la-xdr*.o | awk '$2 == "T" { print $1, "openzfs_" $1 }' >renamed
        for name in ./*.o; do objcopy --redefine-syms=renamed "$name"; done
        rm renamed
        for name in "${LEFT_OUT[@]}"; do rm "libzpool_la-$name.o"; done
        for name in "${WEAKENED[@]}"; do
            nm --defined-only --extern-only --format=posix "libzpool_la-$name.o" | cut -d ' ' -f 1 >weak
            objcopy --weaken-symbols=weak "libzpool_la-$name.o"
        done
        rm weak
        # Since 2.4, this member's options of ztest need a table that linkers drop. Nothing calls them.
        objcopy --wildcard --weaken-symbol='zfs_tunable_*' libzpool_la-util.o
        for name in "${EXPORTED[@]}"; do objcopy --globalize-symbol="${name#*:}" "libzpool_la-${name%:*}.o"; done
        for name in "${WRAPPED[@]}"; do
            objcopy --redefine-sym "${name#*:}=openzfs_${name#*:}" "libzpool_la-${name%:*}.o"
        done
        for name in "${REDIRECTED[@]}"; do
            objcopy --redefine-sym "${name#*:}=pw_${name#*:}" "libzpool_la-${name%:*}.o"
        done
        ar qcs "$DIR/build/libopenzfs.a" ./*.o
    )
}

main_openzfs() {
    parse_openzfs_arguments "$@"
    local into=$DIR/$KIND
    [ "$(fingerprint)" != "$(cat "$into/built" 2>/dev/null)" ] || exit 0
    check_compiler
    mkdir -p "$DIR"
    exec 9>"$DIR/lock"
    flock 9
    say "Building OpenZFS $RELEASE ($KIND; log: ${DIR#"$POOLWRIGHT_ROOT/"}/log)."
    if [ ! -e "$DIR/source/META" ] || [ -n "${ZFS_SOURCE:-}" ]; then provide_source; fi
    compile
    collect
    rm -rf "$into"
    mkdir -p "$into"
    cp "$DIR/build/libopenzfs.a" "$DIR/build/zfs_config.h" "$into/"
    rm -rf "$DIR/build"
    fingerprint >"$into/built"
}

[ "${BASH_SOURCE[0]}" != "$0" ] || main_openzfs "$@"
