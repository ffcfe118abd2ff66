#!/usr/bin/env bash
# Runs in the virtual machine of scripts/deb/vm.sh: boots the Debian of /disk/system with its own systemd, next to a kernel pool, and
# compares what the service reads with what the same program reads without the unit's restrictions.
set -euo pipefail

SYSTEM=/disk/system
UNIT=poolwright-exporter
# Not compared: metrics of the exporter itself, and what the source kernel-events reads, because the kernel lists events to root only.
ROOT_ONLY='^poolwright_(source|scrape|process|exporter|module_info)|event'

fail() { echo "guest: $*" >&2; exit 1; }

make_pool() {
    local i
    truncate -s 256M /disk/a.img /disk/b.img
    zpool create -f -o cachefile=none -O mountpoint=none tank mirror /disk/a.img /disk/b.img
    zfs create -o recordsize=16K -o mountpoint=/mnt/db tank/db
    for i in 1 2 3 4 5; do
        zfs create "tank/d$i"
        zfs snapshot "tank/d$i@s"
    done
    dd if=/dev/urandom of=/mnt/db/file bs=1M count=20 2>/dev/null
    zpool sync tank
    # Debian's udev rule (90-zfs.rules) does this; no udevd runs here.
    chmod 666 /dev/zfs
}

# The system's init, in name spaces of its own.
boot_system() {
    # unshare changes the propagation of the top directory, which must be a mount for that.
    mount --bind "$SYSTEM" "$SYSTEM"
    mount --rbind /dev "$SYSTEM/dev"
    mount -t proc proc "$SYSTEM/proc"
    mount -t sysfs sysfs "$SYSTEM/sys"
    mount -t cgroup2 cgroup2 "$SYSTEM/sys/fs/cgroup"
    chroot "$SYSTEM" env -i container=other PATH=/usr/sbin:/usr/bin unshare --mount --pid --fork --uts --ipc --mount-proc \
        /lib/systemd/systemd >/tmp/systemd.log 2>&1 &
    local tries
    for ((tries = 0; tries < 60; tries++)); do
        INIT=$(grep -lx systemd /proc/[0-9]*/comm 2>/dev/null | cut -d / -f 3 | sort -n | head -n 1 || true)
        case $([ -z "$INIT" ] || in_system systemctl is-system-running 2>/dev/null || true) in
            running | degraded) return 0 ;;
        esac
        sleep 1
    done
    in_system systemctl --no-pager list-jobs || true
    cat /tmp/systemd.log
    fail "systemd did not start"
}

in_system() { chroot "$SYSTEM" nsenter --target "$INIT" --mount --pid --uts --ipc chroot "$SYSTEM" env -i PATH=/usr/sbin:/usr/bin "$@"; }

# scrape PORT FILE: writes the metrics.
scrape() {
    local tries
    for ((tries = 0; tries < 60; tries++)); do
        { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null && break
        sleep 1
    done
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 || fail "nothing answers on port $1"
    cat <&3 >"$2"
    exec 3<&-
    grep -q ' 200 ' "$2" || fail "port $1 answered: $(head -n 5 "$2")"
}

# The names and labels of the samples.
names() { grep '^poolwright_' "$1" | sed 's/ [^ ]*$//' | grep -Ev "$ROOT_ONLY" | sort -u; }

compare() {
    local same
    scrape 9968 /tmp/unit
    sleep 3
    scrape 9968 /tmp/unit
    in_system poolwright serve --listen 127.0.0.1:9969 >/dev/null 2>&1 &
    scrape 9969 /tmp/root
    sleep 3
    scrape 9969 /tmp/root
    names /tmp/unit >/tmp/unit.names
    names /tmp/root >/tmp/root.names
    same=$(wc -l </tmp/root.names)
    grep -q '^poolwright_vdev_state{.*tank.*ONLINE' /tmp/unit || grep -q 'poolwright_vdev_state.*tank' /tmp/unit || fail "no state of vdevs"
    grep -q 'poolwright_dataset_recordsize_bytes.*tank/db.* 16384' /tmp/unit || fail "no properties of datasets"
    grep -q 'poolwright_arc_size_bytes' /tmp/unit || fail "no counters of the ARC"
    diff /tmp/root.names /tmp/unit.names || {
        grep '^poolwright_source' /tmp/unit
        in_system journalctl --no-pager --quiet --unit $UNIT | tail -n 15
        in_system systemd-run --quiet --pipe --wait -p DynamicUser=yes zfs version 2>&1 | paste -sd' '
        fail "the service reads less than root (lines with -)"
    }
    echo "The service reads the same $same series as root without restrictions (events excepted)."
    [ "$(grep '^poolwright_source_up{.* 0$' /tmp/unit)" = 'poolwright_source_up{source="kernel-events"} 0' ] \
        || [ -z "$(grep '^poolwright_source_up{.* 0$' /tmp/unit || true)" ] || fail "sources other than the events failed"
}

report() {
    local pid
    pid=$(in_system systemctl show --property=MainPID --value $UNIT)
    echo "Device: $(ls -l /dev/zfs)"
    in_system grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' "/proc/$pid/status"
    in_system sh -c "cd /sys/fs/cgroup/system.slice/$UNIT.service && for f in memory.max memory.peak pids.max pids.current cpu.max; do echo \$f \$(cat \$f); done" || true
    in_system journalctl --no-pager --quiet --unit $UNIT | tail -n 15
}

# Why the unit does without two settings: with each of them, the same program loses the pools.
counterexamples() {
    local setting
    for setting in PrivateUsers=yes PrivateDevices=yes; do
        echo "zpool list and zfs list with $setting: $(in_system systemd-run --quiet --pipe --wait -p DynamicUser=yes -p "$setting" \
            sh -c 'zpool list -H -o name; zfs list -H -o name' 2>&1 </dev/null | paste -sd' ')"
    done
    echo "without: $(in_system systemd-run --quiet --pipe --wait -p DynamicUser=yes sh -c 'zpool list -H -o name; zfs list -H -o name' \
        2>&1 </dev/null | paste -sd' ')"
}

make_pool
boot_system
[ "$(in_system systemctl is-active $UNIT)" = active ] || { in_system systemctl status --no-pager $UNIT; fail "the service is not active"; }
compare
report
counterexamples
