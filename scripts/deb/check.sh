#!/usr/bin/env bash
# Tests the Debian package in fresh systems of Debian 12 and 13: install, scrape, reinstall, remove, purge.
#
# usage: scripts/deb/check.sh [RELEASE...]
#
# Called by `scripts/deb.sh --check`, which builds the package of this machine's release. For another release, this script builds the
# package in a system of that release, with this machine's Rust. Each system boots systemd in a container (systemd-nspawn) without
# network, and the exporter runs as its unit says. The systems are cached in target/deb-systems. Needs root.
#
# Exit status: 0 all passed, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../install.sh"
# shellcheck source=scripts/deb/systems.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/systems.sh"
cd "$POOLWRIGHT_ROOT"

ADDRESS=127.0.0.1:9968
METRICS=http://$ADDRESS/metrics
UNIT=poolwright-exporter
OPTIONS_FILE=/etc/default/poolwright-exporter
# What the scripts of dependencies (Python, readline, netbase) make when they are installed.
OF_DEPENDENCIES='/__pycache__(/|$)|^/etc/inputrc$|^/etc/networks$|^/etc/python3|^/usr/local/lib/python3|^/var/lib/python'
BUILD_SYSTEM_PACKAGES=("${BUILD_PACKAGES[@]}" dpkg-dev git python3 lintian systemd)

fail() { die 1 "deb, $RELEASE: $*"; }

# Sets PACKAGE, the package for RELEASE.
find_package() {
    local name
    name=poolwright_$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)-1_$(dpkg --print-architecture).deb
    PACKAGE=target/debian/$name
    if [ "$RELEASE" != "$CODENAME" ]; then
        PACKAGE=target/debian/$RELEASE/$name
        is_current || step "Build the package of $RELEASE" build_in_system
    fi
    [ -e "$PACKAGE" ] || die 1 "$PACKAGE does not exist; build it with scripts/deb.sh"
}

# Succeeds if PACKAGE is newer than everything that it is built from.
is_current() {
    [ -e "$PACKAGE" ] && [ -z "$(find Cargo.lock Cargo.toml crates campaigns workloads packaging scripts/deb.sh -type f -newer "$PACKAGE" -print -quit)" ]
}

# Builds the package in a system of RELEASE, with the Rust and the crates of this machine, and a target directory of that system.
build_in_system() {
    local root=$SYSTEMS/$RELEASE-build target=$SYSTEMS/$RELEASE-target cargo=${CARGO_HOME:-$HOME/.cargo} rustup=${RUSTUP_HOME:-$HOME/.rustup}
    [ -e "$root/ready" ] || { rm -rf --one-file-system "$root"; unpack_system "$RELEASE" "$root" "${BUILD_SYSTEM_PACKAGES[@]}"; touch "$root/ready"; }
    mkdir -p "$target" "$root"/{src,root/.cargo,root/.rustup} "${PACKAGE%/*}"
    (
        # The mounts are in a name space of their own, and disappear with it.
        export ENTER_VARIABLES="SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} CARGO_NET_RETRY=10"
        export -f enter
        # shellcheck disable=SC2016 # the inner shell expands it
        unshare --mount bash -ec '
            mount --bind . "$1/src"
            mount --bind "$2" "$1/src/target"
            mount --bind "$3" "$1/root/.cargo"
            mount --bind "$4" "$1/root/.rustup"
            enter "$1" /src/scripts/deb.sh' bash "$root" "$target" "$cargo" "$rustup"
    )
    cp "$target"/debian/*.deb "${PACKAGE%/*}/"
}

# scrape FILE: writes the metrics to FILE as soon as the exporter answers.
scrape() {
    local tries
    for ((tries = 0; tries < 60; tries++)); do
        nsenter --target "$BOOTED" --net curl --silent --fail --max-time 20 "$METRICS" >"$1" && return 0
        sleep 0.5
    done
    booted systemctl status --no-pager --full $UNIT >&2 || true
    fail "the exporter did not answer at $METRICS"
}

# list_files FILE: the paths of the booted system, without what apt and dpkg record about each change, logs and the journal.
list_files() {
    booted find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \) -prune -o -print \
        | LC_ALL=C sort >"$1"
}

# new_files NAME: prints the paths that the system has now, but not before the package was installed, and that belong to no
# other package.
new_files() {
    list_files "$SCRATCH/$1"
    LC_ALL=C comm -13 "$SCRATCH/before" "$SCRATCH/$1" >"$SCRATCH/$1.new"
    booted find /var/lib/dpkg/info -name '*.list' ! -name poolwright.list -exec cat '{}' + | LC_ALL=C sort -u >"$SCRATCH/owned"
    # Debian 12 has /lib as a link to /usr/lib, and its packages name both.
    sed -E 's#^/(lib|lib64|bin|sbin)/#/usr/\1/#' "$SCRATCH/owned" | LC_ALL=C sort -u - "$SCRATCH/owned" >"$SCRATCH/owned.all"
    LC_ALL=C comm -23 "$SCRATCH/$1.new" "$SCRATCH/owned.all" | grep -vE "$OF_DEPENDENCIES" || true
}

check_install() {
    local pid
    booted apt-get install -y -q "/root/${PACKAGE##*/}" >"$SCRATCH/install.log" 2>&1 \
        || { tail -n 30 "$SCRATCH/install.log" >&2; fail "apt install failed (see above)"; }
    scrape "$SCRATCH/metrics"
    grep -q '^poolwright_' "$SCRATCH/metrics" || fail "no metric in the scrape"
    [ "$(booted systemctl is-enabled $UNIT)" = enabled ] || fail "the unit is not enabled"
    pid=$(booted systemctl show --property=MainPID --value $UNIT)
    booted cat "/proc/$pid/status" >"$SCRATCH/status"
    grep -q '^Uid:[[:space:]]0' "$SCRATCH/status" && fail "the exporter runs as root"
    grep -q '^CapEff:[[:space:]]*0000000000000000$' "$SCRATCH/status" || fail "the exporter has capabilities"
    grep -q '^NoNewPrivs:[[:space:]]1$' "$SCRATCH/status" || fail "the exporter may gain privileges"
    grep -q '^Seccomp:[[:space:]]2$' "$SCRATCH/status" || fail "the exporter has no filter of system calls"
    check_sockets
    say "Installed: $(grep -c '^[a-z]' "$SCRATCH/metrics") samples from the exporter, which runs as user $(awk '/^Uid:/ { print $2 }' "$SCRATCH/status")"
}

# Only the exporter's port is open, on loopback. In /proc/net/tcp, 0100007F is 127.0.0.1, and 0A is the state of listening.
check_sockets() {
    local listening
    listening=$(booted cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == "0A" { print $2 }')
    [ "$listening" = "0100007F:$(printf '%04X' "${ADDRESS#*:}")" ] || fail "listening sockets: $listening"
}

# The service restarts after a crash, and after the package is installed again.
check_restart() {
    local before
    before=$(booted systemctl show --property=MainPID --value $UNIT)
    booted systemctl kill --kill-who=main --signal=KILL $UNIT
    scrape "$SCRATCH/metrics"
    [ "$(booted systemctl show --property=MainPID --value $UNIT)" != "$before" ] || fail "the killed exporter did not restart"
    booted systemctl disable --now --quiet $UNIT
    booted apt-get install -y -q --reinstall "/root/${PACKAGE##*/}" >"$SCRATCH/reinstall.log" 2>&1 || fail "apt install --reinstall failed"
    [ "$(booted systemctl is-enabled $UNIT)" = disabled ] || fail "another installation enabled a service that was disabled"
    booted systemctl enable --now --quiet $UNIT
    scrape "$SCRATCH/metrics"
    say "Restarted after a crash; a disabled service stays disabled"
}

check_removal() {
    local left
    booted apt-get remove -y -q poolwright >"$SCRATCH/remove.log" 2>&1 || fail "apt remove failed"
    ! booted systemctl is-active --quiet $UNIT || fail "the exporter runs after the removal"
    [ -z "$(booted cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == "0A"')" ] || fail "a port is open after the removal"
    left=$(new_files removed)
    [ "$left" = "$OPTIONS_FILE" ] || fail "left behind by remove: $left"
    booted apt-get purge -y -q poolwright >"$SCRATCH/purge.log" 2>&1 || fail "apt purge failed"
    left=$(new_files purged)
    [ -z "$left" ] || fail "left behind by purge: $left"
    ! booted grep -q poolwright /etc/passwd /etc/group || fail "purge left a user"
    booted apt-get autoremove --purge -y -q >"$SCRATCH/autoremove.log" 2>&1 || fail "apt autoremove failed"
    list_files "$SCRATCH/after"
    say "Removed: only $OPTIONS_FILE was left; purged: nothing was left; after autoremove, $(LC_ALL=C comm -13 "$SCRATCH/before" "$SCRATCH/after" | wc -l) paths more than before"
    LC_ALL=C comm -13 "$SCRATCH/before" "$SCRATCH/after"
}

lifecycle() {
    local root=$SCRATCH/root
    unpack_system "$RELEASE" "$root" systemd systemd-sysv dbus
    cp "$PACKAGE" "$root/root/"
    # The booted system has no network.
    inside "$root" apt-get install -y -q --download-only "/root/${PACKAGE##*/}"
    boot "$root"
    list_files "$SCRATCH/before"
    check_install
    check_restart
    check_removal
    shut_down
    rm -rf --one-file-system "$root"
}

clean_up() {
    shut_down
    rm -rf --one-file-system "$SCRATCH"
}

main_check() {
    case ${1:-} in
        -h | --help) usage_from "$0"; exit 0 ;;
        -*) die 2 "unknown argument '$1'; see --help" ;;
    esac
    [ $# -gt 0 ] || set -- bookworm trixie
    [ "$(id -u)" -eq 0 ] || die 1 "the systems need root (debootstrap, systemd-nspawn)"
    check_release
    mkdir -p "$SYSTEMS"
    trap clean_up EXIT
    for RELEASE in "$@"; do
        SCRATCH=$(mktemp -d "$SYSTEMS/check.XXXXXX")
        find_package
        step "Install, scrape, remove and purge on $RELEASE" lifecycle
        clean_up
    done
}

main_check "$@"
