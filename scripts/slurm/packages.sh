#!/usr/bin/env bash
# Downloads Debian's packages of Slurm and MUNGE and unpacks them into a directory. Installs nothing.
#
# usage: scripts/slurm/packages.sh [DIR]
#
# DIR is target/slurm/root by default. A second run does nothing. scripts/slurm/cluster.sh runs the programs from there. apt uses its
# own lists and cache below DIR while it downloads, so it needs no root and does not change this machine's sources and packages.
#
# Exit status: 0 done or up to date, 1 failed, 2 wrong usage, 3 refused for safety.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../install.sh"

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

# Runs without apt's lock: it writes only below the new directory, and only reads the list of installed packages.
own_apt() {
    LC_ALL=C apt-get -q -o Dir::State="$NEW/apt/state" -o Dir::Cache="$NEW/apt/cache" -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Etc::sourcelist="$NEW/apt/slurm.sources" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferences=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=0 \
        -o Debug::NoLocking=1 -o Acquire::Retries=5 "$@" >"$NEW/apt/log" 2>&1
}

# Writes the only source that apt uses: this machine's mirror of Debian's main component.
write_source() {
    local entry
    entry=$(debian_mirror)
    [ -n "$entry" ] || die 1 "apt's configuration has no source for Debian $CODENAME main; add one, then run this script again"
    {
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "${entry#* }" "$CODENAME"
        stanza_options "${entry%% *}"
    } >"$NEW/apt/slurm.sources"
}

# Downloads the packages, and those of their dependencies that are not installed on this machine.
download() {
    own_apt update -o APT::Update::Error-Mode=any || {
        tail -n 5 "$NEW/apt/log" >&2
        die 1 "apt cannot read $CODENAME from this machine's mirror (see above); check the network"
    }
    own_apt install --download-only --reinstall --assume-yes "${PACKAGES[@]}" || {
        tail -n 20 "$NEW/apt/log" >&2
        die 1 "apt cannot download ${PACKAGES[*]} (its last lines are above)"
    }
}

# Unpacks the packages. Debian's alternatives give the daemons their usual names when the packages are installed; here, links do.
unpack() {
    local deb program
    for deb in "$NEW"/apt/cache/archives/*.deb; do
        dpkg-deb -x "$deb" "$NEW/root" || die 1 "cannot unpack $deb"
    done
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
    mkdir -p "$NEW/root" "$NEW/apt/state/lists/partial" "$NEW/apt/cache/archives/partial"
    write_source
    download
    unpack
    touch "$NEW/root/packages.done"
    # Another run may have been faster; its directory is the same.
    mv -T -- "$NEW/root" "$ROOT" 2>/dev/null || [ -e "$ROOT/packages.done" ] || die 1 "cannot rename $NEW/root to $ROOT"
}

main "$@"
