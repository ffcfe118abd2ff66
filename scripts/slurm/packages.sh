#!/usr/bin/env bash
# Downloads Debian's packages of Slurm and MUNGE and unpacks them into a directory. Installs nothing.
#
# usage: scripts/slurm/packages.sh [DIR]
#
# DIR is target/slurm/root by default. A second run does nothing. scripts/slurm/cluster.sh runs the programs from there. Needs no
# root, and does not change this machine's sources and packages (scripts/private_apt.sh).
#
# Exit status: 0 done or up to date, 1 failed, 2 wrong usage, 3 refused for safety.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../install.sh"
# shellcheck source=scripts/private_apt.sh
. "$POOLWRIGHT_ROOT/scripts/private_apt.sh"

ROOT=$POOLWRIGHT_ROOT/target/slurm/root
PACKAGES=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2)
# The new directory, which gets its final name when it is complete.
NEW=

parse_arguments() {
    case ${1:-} in
        -h | --help) usage_from "$0"; exit 0 ;;
        -*) die 2 "unknown argument '$1'; see --help" ;;
        '') ;;
        *) ROOT=$(realpath -m -- "$1") ;;
    esac
    [ $# -le 1 ] || die 2 "unexpected argument '$2'; see --help"
}

# Unpacks the packages. Debian's alternatives give the daemons their usual names when the packages are installed; here, links do.
unpack() {
    local program
    unpack_into "$NEW/root" "$APT"/cache/archives/*.deb
    for program in "$NEW"/root/usr/sbin/*-wlm; do
        [ ! -e "$program" ] || ln -s "${program##*/}" "${program%-wlm}"
    done
}

remove_new() { [ -z "$NEW" ] || rm -rf -- "$NEW"; }

main() {
    parse_arguments "$@"
    [ ! -e "$ROOT/packages.done" ] || exit 0
    check_release
    rmdir -- "$ROOT" 2>/dev/null || [ ! -e "$ROOT" ] || die 3 "$ROOT exists, and this script did not write it
hint: remove it, or name another directory"
    say "Downloading Slurm and MUNGE of Debian $CODENAME (about 10 MB, unpacked into $ROOT; nothing is installed)."
    mkdir -p -- "$(dirname -- "$ROOT")"
    trap remove_new EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    NEW=$(mktemp -d "$ROOT.XXXXXX")
    APT=$NEW/apt
    write_source "$CODENAME" main
    read_lists
    fetch_packages "${PACKAGES[@]}"
    unpack
    touch "$NEW/root/packages.done"
    # Another run may have been faster; its directory is the same.
    mv -T -- "$NEW/root" "$ROOT" 2>/dev/null || [ -e "$ROOT/packages.done" ] || die 1 "cannot rename $NEW/root to $ROOT"
}

main "$@"
