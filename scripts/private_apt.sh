# shellcheck shell=bash
# Functions: apt with separate lists, cache and sources below $APT. It needs no root, and does not change this machine's sources and
# packages. A script sources this after scripts/install.sh, sets APT and calls write_source, then read_lists.

# The directory of the lists, the cache, the sources and the log.
APT=

# private_apt TOOL ARGUMENT...: runs apt-get or apt-cache without apt's lock: it only reads the list of installed packages.
private_apt() {
    local tool=$1
    shift
    LC_ALL=C "$tool" -q -o Dir::State="$APT/state" -o Dir::Cache="$APT/cache" -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Etc::sourcelist="$APT/private.sources" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferences=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=0 \
        -o Debug::NoLocking=1 -o Acquire::Retries=5 "$@"
}

# write_source SUITES COMPONENTS: makes the directory, and writes the only source: this machine's mirror.
write_source() {
    local entry
    entry=$(debian_mirror)
    [ -n "$entry" ] || die 1 "apt's configuration has no source for Debian $CODENAME main; add one, then run this script again"
    mkdir -p "$APT/state/lists/partial" "$APT/cache/archives/partial"
    {
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\n' "${entry#* }" "$1" "$2"
        stanza_options "${entry%% *}"
    } >"$APT/private.sources"
}

# read_lists: downloads the lists of packages.
read_lists() {
    private_apt apt-get update -o APT::Update::Error-Mode=any >"$APT/log" 2>&1 || {
        tail -n 5 "$APT/log" >&2
        die 1 "apt cannot read this machine's mirror of Debian $CODENAME (see above); check the network"
    }
}

# fetch_packages ARGUMENT...: downloads these packages, and their dependencies that are not installed on this machine.
fetch_packages() {
    private_apt apt-get install --download-only --reinstall --assume-yes "$@" >"$APT/log" 2>&1 || {
        tail -n 20 "$APT/log" >&2
        die 1 "apt cannot download $* (its last lines are above)"
    }
}

# unpack_into DIR DEB...: unpacks packages.
unpack_into() {
    local into=$1 deb
    shift
    mkdir -p "$into"
    for deb in "$@"; do
        dpkg-deb -x "$deb" "$into" || die 1 "cannot unpack $deb into $into"
    done
}
