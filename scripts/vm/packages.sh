#!/usr/bin/env bash
# Downloads Debian packages for the virtual machine and unpacks them into target/vm. Installs nothing.
#
# usage: scripts/vm/packages.sh
#
# QEMU runs from the unpacked package; the kernel and its ZFS module run only in the guest. Needs no root,
# and does not change this machine's sources and packages (scripts/private_apt.sh). On Debian 12 the packages come from
# bookworm-backports (main and contrib), because bookworm's QEMU 7.2 corrupts the guest's memory when it emulates some processors,
# and its OpenZFS is 2.1. On Debian 13 they come from trixie.
#
# Exit status: 0 done or up to date, 1 failed.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../install.sh"
# shellcheck source=scripts/private_apt.sh
. "$POOLWRIGHT_ROOT/scripts/private_apt.sh"

VM=$POOLWRIGHT_ROOT/target/vm
SUITE=
# For this machine: run from target/vm/host.
HOST_PACKAGES=(qemu-system-x86 cpio kmod)
# For the guest: unpacked into target/vm/guest.
GUEST_PACKAGES=(busybox-static bash zfsutils-linux zfs-dkms)
KERNEL=(linux-image-cloud-amd64 linux-headers-cloud-amd64)

# from_suite TOOL ARGUMENT...: runs apt with the packages of the guest's suite.
from_suite() {
    local tool=$1
    shift
    private_apt "$tool" -o APT::Default-Release="$SUITE" "$@"
}

# dependencies PACKAGE: the dependencies of a package without versions; only the first of alternatives.
dependencies() {
    from_suite apt-cache show --no-all-versions "$1" | sed -n 's/^Depends: //p' | tr ',' '\n' | sed 's/|.*//; s/(.*//; s/ //g'
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
    (cd "$VM/debs" && from_suite apt-get download "$@" >"$APT/log" 2>&1) || {
        tail -n 20 "$APT/log" >&2
        die 1 "apt cannot download $* from $SUITE (its last lines are above)"
    }
    unpack_into "$into" "$VM"/debs/*.deb
    rm -rf "$VM/debs"
}

main() {
    [ ! -e "$VM/packages.done" ] || exit 0
    check_release
    local suites=$CODENAME
    SUITE=$CODENAME
    [ "$CODENAME" = bookworm ] && SUITE=bookworm-backports suites="bookworm bookworm-backports"
    APT=$VM/apt
    say "Downloading packages of Debian $SUITE for the virtual machine (about 250 MB, unpacked into target/vm; nothing is installed):"
    say "  for this machine:  ${HOST_PACKAGES[*]} and their libraries"
    say "  for the guest:     ${KERNEL[*]} ${GUEST_PACKAGES[*]}"
    rm -rf "$VM/host" "$VM/guest" "$VM/kernel" "$VM/debs"
    write_source "$suites" "main contrib"
    read_lists
    fetch_packages -o APT::Default-Release="$SUITE" "${HOST_PACKAGES[@]}"
    unpack_into "$VM/host" "$APT"/cache/archives/*.deb
    rm -f "$APT"/cache/archives/*.deb
    # shellcheck disable=SC2046 # one package per word
    download "$VM/guest" "${GUEST_PACKAGES[@]}" $(zfs_libraries)
    # shellcheck disable=SC2046
    download "$VM/kernel" $(kernel_packages)
    rm -rf "$APT"
    touch "$VM/packages.done"
}

# The libraries of the guest's zpool, zfs and zdb, of the same version as the module.
zfs_libraries() { dependencies zfsutils-linux | grep -E '^lib(zfs|zpool|nvpair|uutil)[0-9]*linux$'; }

main "$@"
