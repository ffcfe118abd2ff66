#!/usr/bin/env bash
# Runs a shell script in a virtual machine whose kernel has ZFS; passes on its output and exit status.
#
# usage: scripts/vm/run.sh [--disk IMAGE] [--seconds N] [--memory MIB] [--reboot] [--virtual-time] SCRIPT [ARGUMENT...]
#
#   --disk IMAGE   an ext4 image, mounted read-write at /disk in the guest (scripts/vm/disk.sh makes one)
#   --seconds N    time limit of the guest (900)
#   --memory MIB   memory of the guest (2048)
#   --reboot       a guest that is reset boots again, and runs the script again, until the script ends
#   --virtual-time the guest is emulated, has one processor, and its clock counts instructions: one nanosecond each, and a jump to the next
#                  timer when it is idle. What else runs on this machine then does not change the guest's times
#
# The script runs in bash, with busybox, zpool, zfs, zdb and the program `tree`. The guest has no network. It uses /dev/kvm if a
# test guest boots with it; otherwise it is emulated, which is 10 to 20 times slower.
#
# Exit status: the script's; 124 time limit exceeded; 125 the guest ended without a status (it was reset, or it crashed).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

VM=$POOLWRIGHT_ROOT/target/vm
DISK=''
SECONDS_MAX=900
MEMORY=2048
REBOOT=no
# Seconds after which a reset that has not ended the machine has failed.
RESET_SECONDS=60
VIRTUAL_TIME=no
PROCESSORS=(-smp 2 -cpu max)

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --disk) DISK=${2:?}; shift ;;
            --seconds) SECONDS_MAX=${2:?}; shift ;;
            --memory) MEMORY=${2:?}; shift ;;
            --reboot) REBOOT=yes ;;
            --virtual-time) VIRTUAL_TIME=yes ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *) break ;;
        esac
        shift
    done
    [ $# -ge 1 ] || die 2 "no script given; see --help"
    SCRIPT=$1
    shift
    ARGUMENTS=("$@")
    [ -r "$SCRIPT" ] || die 2 "cannot read the script $SCRIPT"
}

host_program() { find "$VM/host" -type f -name "$1" | head -n 1; }

# Writes the initial RAM disk of this run: the image, followed by a second archive with the script and its functions.
write_image() {
    local extra=$RUN/extra
    mkdir "$extra"
    cp "$SCRIPT" "$extra/run.script"
    cp "$POOLWRIGHT_ROOT/scripts/vm/guest.sh" "$extra/"
    printf '%q ' ${ARGUMENTS[@]+"${ARGUMENTS[@]}"} >"$extra/run.arguments"
    { cat "$VM/image.cpio"; (cd "$extra" && find . | "$(host_program cpio)" -o -H newc --quiet); } >"$RUN/image"
}

# start ACCELERATION SECONDS: runs a guest; its console goes to standard output, its status to $RUN/control.
start() {
    local firmware=() libraries directory disk=()
    libraries=$(find "$VM/host" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
    for directory in "$VM"/host/usr/share/{qemu,seabios}; do
        [ ! -d "$directory" ] || firmware+=(-L "$directory")
    done
    # cache=unsafe: flushed data must survive a reset of the guest, not of this machine.
    [ -z "$DISK" ] || disk=(-drive "if=none,id=disk,file=$DISK,format=raw,cache=unsafe,discard=unmap" -device "virtio-blk-pci,drive=disk")
    rm -f "$RUN/control"
    LD_LIBRARY_PATH=$libraries timeout -k 5 "$2" "$(host_program qemu-system-x86_64)" "${firmware[@]}" -accel "$1" "${PROCESSORS[@]}" \
        -machine q35 -m "$MEMORY" -nodefaults -no-user-config -display none -no-reboot -pidfile "$RUN/pid" \
        -kernel "$(echo "$VM"/kernel/boot/vmlinuz-*)" -initrd "$RUN/image" \
        -append "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off no_timer_check tsc=reliable" \
        -serial stdio -serial "file:$RUN/control" ${disk[@]+"${disk[@]}"} </dev/null | sed -u 's/\r//g'
}

# end_failed_reset FILE: ends the machine if its console, FILE, says that it resets and nothing follows. The reset of an emulated machine
# sometimes hangs. Killing it leaves the disk as a reset does.
end_failed_reset() {
    while sleep 5 && [ -e "$1" ]; do
        if tail -n 1 "$1" | grep -q 'sysrq: Resetting' && [ $(($(date +%s) - $(stat -c %Y "$1"))) -gt $RESET_SECONDS ]; then
            say "the reset of the machine has failed; it is killed" >&2
            kill -9 "$(cat "$RUN/pid")"
        fi
    done
}

# boot ACCELERATION: runs the guest; with --reboot, again after each reset, which ends the machine, until the guest reports a status.
boot() {
    local until=$((SECONDS + SECONDS_MAX)) status watcher
    while :; do
        status=0
        : >"$RUN/console"
        end_failed_reset "$RUN/console" &
        watcher=$!
        start "$1" $((until > SECONDS ? until - SECONDS : 1)) | tee "$RUN/console" || status=$?
        kill $watcher
        wait $watcher 2>/dev/null || true
        if [ $status -eq 124 ] || [ $REBOOT = no ] || [ -n "$(status_of_guest)" ]; then return $status; fi
    done
}

status_of_guest() { tr -d '\r' <"$RUN/control" 2>/dev/null | sed -n 's/^status //p' | tail -n 1; }

# The acceleration that works, determined once after each boot of this machine: even if /dev/kvm exists, guests may fail to boot with it.
acceleration() {
    local known boot emulated=tcg,thread=multi
    boot=$(cat /proc/sys/kernel/random/boot_id)
    known=$VM/acceleration.$boot
    if [ ! -e "$known" ]; then
        rm -f "$VM"/acceleration.*
        echo $emulated >"$known"
        if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
            printf 'true\n' >"$RUN/true"
            (
                DISK='' SCRIPT=$RUN/true ARGUMENTS=()
                RUN=$RUN/probe
                mkdir "$RUN"
                write_image
                start kvm 60 >/dev/null 2>&1 || true
                [ "$(status_of_guest)" = 0 ]
            ) && echo kvm >"$known"
        fi
    fi
    cat "$known"
}

main() {
    local status=0 of_guest accelerated
    parse_arguments "$@"
    "$POOLWRIGHT_ROOT/scripts/vm/image.sh" >&2
    RUN=$(mktemp -d "$VM/run.XXXXXX")
    trap 'rm -rf "$RUN"' EXIT
    if [ $VIRTUAL_TIME = yes ]; then
        accelerated=tcg,thread=single
        # With erms, fsrm and fsrs, the kernel copies and clears with `rep movsb` and `rep stosb`, of which this clock counts every byte.
        PROCESSORS=(-icount "shift=0,sleep=off" -smp 1 -cpu "max,-erms,-fsrm,-fsrs")
    else
        accelerated=$(acceleration)
    fi
    write_image
    boot "$accelerated" || status=$?
    of_guest=$(status_of_guest || true)
    [ "$status" -ne 124 ] || die 124 "the guest exceeded its time limit of $SECONDS_MAX s"
    exit "${of_guest:-125}"
}

main "$@"
