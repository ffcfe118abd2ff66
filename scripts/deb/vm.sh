#!/usr/bin/env bash
# Tests the exporter's unit next to a kernel's OpenZFS: boots Debian 12 with the package and systemd in the virtual machine of scripts/vm.
#
# usage: scripts/deb/vm.sh [PACKAGE]
#
#   PACKAGE   the package of Debian 12 (target/debian/poolwright_VERSION_amd64.deb)
#
# The service must read everything that the same program reads as root without restrictions, except events. Needs root, to make the
# system (debootstrap).
#
# Exit status: 0 passed, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../install.sh"
# shellcheck source=scripts/deb/systems.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/systems.sh"
# shellcheck source=scripts/vm/disk.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../vm/disk.sh"
cd "$POOLWRIGHT_ROOT"

main_vm() {
    local package=${1:-} scratch
    case $package in
        -h | --help) usage_from "$0"; exit 0 ;;
        '') package=$(echo target/debian/poolwright_*.deb) ;;
    esac
    [ -r "$package" ] || die 1 "there is no package $package; build it with scripts/deb.sh"
    check_release
    mkdir -p "$SYSTEMS"
    scratch=$(mktemp -d "$SYSTEMS/vm.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf --one-file-system -- '$scratch'" EXIT
    unpack_system bookworm "$scratch/system" systemd systemd-sysv dbus
    cp "$package" "$scratch/system/root/"
    inside "$scratch/system" apt-get install -y -q --no-install-recommends -t bookworm-backports zfsutils-linux
    inside "$scratch/system" apt-get install -y -q --no-install-recommends "/root/${package##*/}"
    rm -rf "$scratch"/system/var/cache/apt/archives/*.deb
    disk_make "$scratch/disk.img" 3G "$scratch/system"
    scripts/vm/run.sh --disk "$scratch/disk.img" --seconds 900 scripts/deb/guest.sh
}

main_vm "$@"
