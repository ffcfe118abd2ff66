#!/usr/bin/env bash
# Captures what the kernel's OpenZFS shows of pools in good and bad states, as test data of crates/zfs.
#
# usage: scripts/vm/captures.sh [--into DIR] [--seconds N] [STATE...]
#
#   --into DIR    where the captures go (crates/zfs/tests/captures/openzfs-VERSION)
#   --seconds N   time limit of the guest (1800)
#
# States (default: all): none, healthy, scrubbing, degraded, faulted, unavailable, rebuilt, data_errors, label_lost, read_errors, full,
# suspended. A state can give several captures: degraded is followed by resilvered. read_errors needs zinject, which is downloaded from
# the package zfs-test and not installed.
#
# The pools are files in a virtual machine (scripts/vm/run.sh); nothing of this machine gets into a capture. Each capture has the kstat
# tree and the output of the commands that crates/zfs runs; its file `commands` lists them with their exit statuses, or `hung`.
#
# Exit status: 0 captured, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=scripts/vm/disk.sh
. "$POOLWRIGHT_ROOT/scripts/vm/disk.sh"

INTO=
SECONDS_MAX=1800
WORK=$POOLWRIGHT_ROOT/target/vm/captures
STATES=()

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --into) INTO=${2:?}; shift ;;
            --seconds) SECONDS_MAX=${2:?}; shift ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *) STATES+=("$1") ;;
        esac
        shift
    done
}

# constant NAME FILE: the value of a string constant of the crate, so that the captures have the columns that it asks for.
constant() {
    local value
    value=$(tr '\n' ' ' <"$POOLWRIGHT_ROOT/crates/zfs/src/kernel/command/$2.rs" | sed -n "s/.*pub const $1: &str = *\"\([^\"]*\)\".*/\1/p" | tr -d '\\ ')
    [ -n "$value" ] || die 1 "crates/zfs/src/kernel/command/$2.rs has no constant $1"
    printf '%s\n' "$value"
}

write_lists() {
    printf 'LIST_COLUMNS=%s\nVDEV_PROPERTIES=%s\nDATASET_COLUMNS=%s\nDATASET_PROPERTIES=%s\n' "$(constant COLUMNS space)" \
        "$(constant PROPERTIES vdev_counters)" "$(constant COLUMNS dataset)" "$(constant TUNED property)" >"$WORK/lists"
}

# Downloads zinject of the version that apt has, which must be that of the module.
fetch_zinject() {
    (cd "$WORK" && apt-get -q download zfs-test >apt.log 2>&1 && dpkg-deb -x zfs-test_*.deb zfs-test) || {
        warn "apt cannot download zfs-test: read_errors is not captured"
        return 0
    }
    cp "$(find "$WORK/zfs-test" -name zinject -type f)" "$WORK/zinject"
    chmod 755 "$WORK/zinject"
}

main() {
    local version capture files
    parse_arguments "$@"
    "$POOLWRIGHT_ROOT/scripts/vm/image.sh"
    rm -rf "$WORK"
    mkdir -p "$WORK/out"
    write_lists
    fetch_zinject
    files=("$WORK/lists")
    [ ! -e "$WORK/zinject" ] || files+=("$WORK/zinject")
    disk_make "$WORK/disk" 8G "${files[@]}"
    "$POOLWRIGHT_ROOT/scripts/vm/run.sh" --seconds "$SECONDS_MAX" --disk "$WORK/disk" "$POOLWRIGHT_ROOT/scripts/vm/capture_states.sh" \
        ${STATES[@]+"${STATES[@]}"} || warn "the guest ended with status $?"
    disk_get "$WORK/disk" "$WORK" captures.tar
    [ -s "$WORK/captures.tar" ] || die 1 "the guest wrote no captures"
    tar -C "$WORK/out" --no-same-owner -xf "$WORK/captures.tar"
    version=$(sed -n 's/^zfs-kmod-\([0-9.]*\).*/\1/p' "$WORK"/out/*/zfs-version | head -n 1)
    INTO=${INTO:-$POOLWRIGHT_ROOT/crates/zfs/tests/captures/openzfs-$version}
    mkdir -p "$INTO"
    for capture in "$WORK"/out/*/; do
        capture=$(basename "$capture")
        rm -rf "${INTO:?}/$capture"
        cp -r "$WORK/out/$capture" "$INTO/"
        say "$(du -sk "$INTO/$capture" | cut -f 1) KiB  $INTO/$capture"
    done
    rm -rf "$WORK"
}

main "$@"
