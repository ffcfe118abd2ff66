#!/usr/bin/env bash
# Downloads Debian packages for the virtual machine and unpacks them into target/vm. Installs nothing.
#
# usage: scripts/vm/packages.sh
#
# QEMU runs from the unpacked package; the kernel and its ZFS module run only in the guest. apt uses its own lists, cache and sources
# in target/vm/apt, so it needs no root and does not change this machine's sources and packages. On Debian 12 the packages come from
# bookworm-backports (main and contrib), because bookworm's QEMU 7.2 corrupts the guest's memory when it emulates some processors,
# and its OpenZFS is 2.1. On Debian 13 they come from trixie.
#
# Exit status: 0 done or up to date, 1 failed.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../install.sh"

VM=$POOLWRIGHT_ROOT/target/vm
SUITE=
# For this machine: run from target/vm/host.
HOST_PACKAGES=(qemu-system-x86 cpio kmod)
# For the guest: unpacked into target/vm/guest.
GUEST_PACKAGES=(busybox-static bash zfsutils-linux zfs-dkms)
KERNEL=(linux-image-cloud-amd64 linux-headers-cloud-amd64)

# Runs without apt's lock: it writes only below target/vm, and only reads the list of installed packages.
own_apt() {
    local tool=$1
    shift
    [ -z "$SUITE" ] || set -- -o APT::Default-Release="$SUITE" "$@"
    LC_ALL=C "$tool" -q -o Dir::State="$VM/apt/state" -o Dir::Cache="$VM/apt/cache" -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Etc::sourcelist="$VM/apt/vm.sources" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferences=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=0 \
        -o Debug::NoLocking=1 "$@"
}

# Writes apt sources: this machine's mirror, with the suites and components that the guest needs.
write_sources() {
    local entry suites
    entry=$(debian_mirror)
    [ -n "$entry" ] || die 1 "apt's configuration has no source for Debian $CODENAME main; add one, then run this script again"
    suites=$CODENAME
    [ "$CODENAME" = bookworm ] && suites="bookworm bookworm-backports"
    {
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main contrib\n' "${entry#* }" "$suites"
        stanza_options "${entry%% *}"
    } >"$VM/apt/vm.sources"
}

# fetch PACKAGE...: downloads these packages, and their dependencies that are not installed on this machine.
fetch() {
    own_apt apt-get install --download-only --reinstall --assume-yes "$@" >"$VM/apt/log" 2>&1 || {
        tail -n 20 "$VM/apt/log" >&2
        die 1 "apt cannot fetch $* from $SUITE (its last lines are above)"
    }
}

# dependencies PACKAGE: the dependencies of a package without versions; only the first of alternatives.
dependencies() {
    own_apt apt-cache show --no-all-versions "$1" | sed -n 's/^Depends: //p' | tr ',' '\n' | sed 's/|.*//; s/(.*//; s/ //g'
}

# The kernel's packages by their real names, because the meta packages are empty.
kernel_packages() {
    local meta real
    for meta in "${KERNEL[@]}"; do
        for real in $(dependencies "$meta"); do
            case $real in
                linux-image-*) echo "$real" ;;
                linux-headers-*) echo "$real"; dependencies "$real" | grep -E '^linux-(headers|kbuild)-' ;;
            esac
        done
    done
}

# download DIR PACKAGE...: downloads exactly these packages and unpacks them into DIR.
download() {
    local into=$1
    shift
    mkdir -p "$VM/debs" "$into"
    (cd "$VM/debs" && own_apt apt-get download "$@" >"$VM/apt/log" 2>&1) || {
        tail -n 20 "$VM/apt/log" >&2
        die 1 "apt cannot download $* from $SUITE (its last lines are above)"
    }
    unpack "$into" "$VM"/debs/*.deb
    rm -rf "$VM/debs"
}

unpack() {
    local into=$1 deb
    shift
    mkdir -p "$into"
    for deb in "$@"; do
        dpkg-deb -x "$deb" "$into" || die 1 "cannot unpack $deb into $into"
    done
}

main() {
    [ ! -e "$VM/packages.done" ] || exit 0
    check_release
    SUITE=$CODENAME
    [ "$CODENAME" = bookworm ] && SUITE=bookworm-backports
    say "Downloading packages of Debian $SUITE for the virtual machine (about 250 MB, unpacked into target/vm; nothing is installed):"
    say "  for this machine:  ${HOST_PACKAGES[*]} and their libraries"
    say "  for the guest:     ${KERNEL[*]} ${GUEST_PACKAGES[*]}"
    rm -rf "$VM/host" "$VM/guest" "$VM/kernel" "$VM/debs"
    mkdir -p "$VM/apt/state/lists/partial" "$VM/apt/cache/archives/partial"
    write_sources
    own_apt apt-get update -o APT::Update::Error-Mode=any >"$VM/apt/log" 2>&1 || {
        tail -n 5 "$VM/apt/log" >&2
        die 1 "apt cannot read $SUITE from this machine's mirror (see above); check the network"
    }
    fetch "${HOST_PACKAGES[@]}"
    unpack "$VM/host" "$VM"/apt/cache/archives/*.deb
    rm -f "$VM"/apt/cache/archives/*.deb
    # shellcheck disable=SC2046 # one package per word
    download "$VM/guest" "${GUEST_PACKAGES[@]}" $(zfs_libraries)
    # shellcheck disable=SC2046
    download "$VM/kernel" $(kernel_packages)
    rm -rf "$VM/apt"
    touch "$VM/packages.done"
}

# The libraries of the guest's zpool, zfs and zdb, of the same version as the module.
zfs_libraries() { dependencies zfsutils-linux | grep -E '^lib(zfs|zpool|nvpair|uutil)[0-9]*linux$'; }

main "$@"
