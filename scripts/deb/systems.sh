# shellcheck shell=bash
# Small systems of a Debian release, made by debootstrap: unpacked, entered, booted. Sourced by check.sh, never run.

SYSTEMS=target/deb-systems

# Prints the URI of this machine's mirror of Debian.
mirror_uri() {
    local entry
    entry=$(debian_mirror)
    [ -n "$entry" ] || die 1 "apt's configuration has no source for Debian $CODENAME main, so the mirror is unknown"
    printf '%s\n' "${entry#* }"
}

# base_system RELEASE: prints the path of a tar file of the smallest Debian of this release; makes it if it is missing.
base_system() {
    local release=$1 file root
    file=$SYSTEMS/$release.tar
    if [ ! -e "$file" ]; then
        mkdir -p "$SYSTEMS"
        root=$(mktemp -d "$SYSTEMS/base.XXXXXX")
        # Users other than root need the top directory.
        chmod 755 "$root"
        debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$(mirror_uri)" >"$SYSTEMS/$release.log" 2>&1 \
            || { tail -n 25 "$SYSTEMS/$release.log" >&2; die 1 "debootstrap failed for $release (see above)"; }
        write_sources "$release" "$root"
        rm -f "$root"/var/cache/apt/archives/*.deb
        tar -C "$root" --numeric-owner -cf "$file.new" .
        mv "$file.new" "$file"
        rm -rf --one-file-system "$root"
    fi
    printf '%s\n' "$file"
}

# The sources that the package needs: on Debian 12, OpenZFS 2.3 is in backports.
write_sources() {
    local release=$1 root=$2 suite=$1
    [ "$release" != bookworm ] || suite=$release-backports
    : >"$root/etc/apt/sources.list"
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n\nTypes: deb\nURIs: %s\nSuites: %s\nComponents: contrib\n' \
        "$(mirror_uri)" "$release" "$(mirror_uri)" "$suite" >"$root/etc/apt/sources.list.d/debian.sources"
}

# unpack_system RELEASE DIR [PACKAGE...]: unpacks the base system into DIR, and installs packages.
unpack_system() {
    local release=$1 root=$2 base
    shift 2
    base=$(base_system "$release")
    mkdir -p "$root"
    chmod 755 "$root"
    tar -C "$root" --numeric-owner -xpf "$base"
    rm -f "$root/etc/resolv.conf"
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    inside "$root" apt-get update -qq
    [ $# -eq 0 ] || inside "$root" apt-get install -y -q --no-install-recommends "$@"
}

# inside ROOT COMMAND...: runs a command in the system, with the network of this machine. Prints its output only if it fails.
inside() {
    local root=$1 log
    shift
    log=$root.log
    enter "$root" "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2; die 1 "failed in $root: $*"; }
}

# enter ROOT COMMAND...: the same, and prints the output. The mounts disappear with the command.
enter() {
    local root=$1
    shift
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare --mount --pid --fork --kill-child bash -ec '
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        exec chroot "$root" env -i PATH=/root/.cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive ${ENTER_VARIABLES:-} "$@"' bash "$root" "$@" </dev/null
}

# boot ROOT: starts the system's systemd in a container without network. Sets BOOTED, the process id of its init.
boot() {
    local root=$1 waited=0
    # The second variable makes nspawn use cgroup v2, the only one that Debian 13 supports, also on hosts that prefer v1.
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --boot --directory="$root" --register=no --keep-unit \
        --private-network --resolv-conf=off --timezone=off --link-journal=no --console=pipe </dev/null >"$root.console" 2>&1 &
    NSPAWN=$!
    BOOTED=
    while [ "$waited" -lt 120 ]; do
        BOOTED=$(init_of "$NSPAWN")
        case $([ -z "$BOOTED" ] || booted systemctl is-system-running 2>/dev/null || true) in
            running | degraded) return 0 ;;
        esac
        sleep 1
        waited=$((waited + 1))
    done
    die 1 "the system in $root did not boot within $waited s: $(tail -n 5 "$root.console")"
}

# The init of a container is the process with id 1 in its own name space.
init_of() {
    local pid
    for pid in $(descendants "$1"); do
        [ "$(awk '/^NSpid:/ { print $NF, NF }' "/proc/$pid/status" 2>/dev/null)" = "1 3" ] && { echo "$pid"; return; }
    done
    return 0
}

descendants() {
    local child
    for child in $(ps --no-headers -o pid --ppid "$1" || true); do
        echo "$child"
        descendants "$child"
    done
}

# booted COMMAND...: runs a command in the booted system, with a time limit.
booted() {
    timeout -k 5 300 nsenter --target "$BOOTED" --mount --uts --ipc --net --pid --cgroup --root env -i -C / \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

# shut_down: ends the booted system.
shut_down() {
    [ -n "${NSPAWN:-}" ] || return 0
    [ -z "${BOOTED:-}" ] || booted systemctl poweroff >/dev/null 2>&1 || true
    timeout 30 tail --pid="$NSPAWN" -f /dev/null || kill -KILL "$NSPAWN" 2>/dev/null || true
    wait "$NSPAWN" 2>/dev/null || true
    NSPAWN='' BOOTED=''
}
