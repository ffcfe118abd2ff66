#!/usr/bin/env bash
# Runs the released program in fresh systems of other releases of Debian: `inspect` from the tar archive and from the package, and a plan.
#
# usage: scripts/dist/check.sh [RELEASE...]
#
# Releases: bullseye, bookworm, trixie, sid (default: all). Run scripts/dist.sh first. The systems are made by debootstrap in
# target/deb-systems, entered with chroot, and removed afterwards. Needs root. Prints the time of each step.
#
# Exit status: 0 all passed, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../install.sh"
# shellcheck source=scripts/deb/systems.sh
. "$POOLWRIGHT_ROOT/scripts/deb/systems.sh"
cd "$POOLWRIGHT_ROOT"

FILES=$POOLWRIGHT_ROOT/target/dist/files
RELEASES=(bullseye bookworm trixie sid)
# The databases' client that makes the example, and what the program needs to record.
PACKAGES=(sqlite3)

# enter_host COMMAND...: as enter, with the processes and the kernel of this machine, which the recorder needs.
enter_host() {
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare --mount bash -ec '
        root=$1
        shift
        for dir in proc sys dev; do mount --rbind "/$dir" "$root/$dir"; done
        exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"' bash "$ROOT" "$@" </dev/null
}

# timed TEXT COMMAND...: runs a command in the system, and prints how long it took.
timed() {
    local text=$1 began=$EPOCHREALTIME
    shift
    enter_host "$@" >"$ROOT.out" 2>&1 || { tail -n 20 "$ROOT.out" >&2; die 1 "$RELEASE: $text failed (see above)"; }
    say "  $RELEASE: $text: $(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s", b - a }')"
}

check_release_of() {
    RELEASE=$1
    ROOT=$SYSTEMS/$RELEASE-dist
    rm -rf --one-file-system "$ROOT"
    unpack_system "$RELEASE" "$ROOT" "${PACKAGES[@]}"
    cp "$FILES"/* "$ROOT/root/"
    # From the archive: check, unpack, run.
    timed "checksums" sh -c 'cd /root && sha256sum -c SHA256SUMS'
    timed "unpack the archive" sh -c 'cd /root && tar -xzf poolwright-*.tar.gz'
    timed "inspect, from the archive" sh -c '/root/poolwright-*/bin/poolwright inspect'
    timed "install the package" sh -c 'apt-get install -y -q --no-install-recommends /root/poolwright_*.deb'
    timed "a database" sqlite3 /root/shop.db "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
        WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 200000) INSERT INTO t SELECT n, 'row ' || n FROM c;"
    timed "inspect, from the package" sh -c 'mkdir -p /root/shop && mv /root/shop.db /root/shop/ && poolwright inspect /root/shop && poolwright inspect --json'
    timed "estimate" poolwright estimate /root/shop --limit 5s
    # shellcheck disable=SC2016 # the inner shell expands it
    timed "record" sh -c 'for n in 1 2 3 4 5 6 7 8 9; do sqlite3 /root/shop/shop.db "UPDATE t SET v = v || $n WHERE id % 997 = $n"; sleep 0.7; done &
        poolwright record --dir /root/shop --for 8s -o /root/shop.parquet'
    timed "the plan" sh -c 'cd /root && poolwright tune /root/shop --trace /root/shop.parquet --device nvme'
    timed "remove the package" apt-get purge -y -q poolwright
    rm -rf --one-file-system "$ROOT" "$ROOT.log" "$ROOT.out"
}

main_check() {
    [ "${1:-}" != --help ] || { usage_from "$0"; exit 0; }
    [ -e "$FILES/SHA256SUMS" ] || die 1 "no release files; run scripts/dist.sh"
    [ "$(id -u)" -eq 0 ] || die 1 "debootstrap and chroot need root"
    check_release
    [ $# -gt 0 ] || set -- "${RELEASES[@]}"
    local release
    for release in "$@"; do
        case " ${RELEASES[*]} " in *" $release "*) ;; *) die 2 "unknown release '$release': ${RELEASES[*]}" ;; esac
        step "Debian $release" check_release_of "$release"
    done
}

main_check "$@"
