#!/usr/bin/env bash
# Runs a shell script in a virtual machine with a kernel that has ZFS, and gives its output and exit status.
#
# usage: scripts/vm/run.sh [--disk IMAGE] [--seconds N] [--memory MIB] SCRIPT [ARGUMENT...]
#
#   --disk IMAGE   an ext4 image, mounted at /disk in the guest, read and written (scripts/vm/disk.sh makes one)
#   --seconds N    end the guest after this long (900)
#   --memory MIB   the guest's memory (2048)
#
# The script runs under bash with busybox, zpool, zfs, zdb and the program tree. The guest has no network. It uses
# /dev/kvm where a guest really boots with it, else it is emulated, 10 to 20 times slower: nothing here measures time.
#
# Exit status: the script's; 124 out of time; 125 the guest ended without one (it was reset, or it crashed).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

VM=$POOLWRIGHT_ROOT/target/vm
DISK=''
SECONDS_MAX=900
MEMORY=2048

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --disk) DISK=${2:?}; shift ;;
            --seconds) SECONDS_MAX=${2:?}; shift ;;
            --memory) MEMORY=${2:?}; shift ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *) break ;;
        esac
        shift
    done
    [ $# -ge 1 ] || die 2 "no script for the guest; see --help"
    SCRIPT=$1
    shift
    ARGUMENTS=("$@")
    [ -r "$SCRIPT" ] || die 2 "cannot read the guest's script $SCRIPT"
}

host_program() { find "$VM/host" -type f -name "$1" | head -n 1; }

# The memory disk with the script of this run: a second archive behind the first.
write_image() {
    local extra=$RUN/extra
    mkdir "$extra"
    cp "$SCRIPT" "$extra/run.script"
    printf '%q ' ${ARGUMENTS[@]+"${ARGUMENTS[@]}"} >"$extra/run.arguments"
    { cat "$VM/image.cpio"; (cd "$extra" && find . | "$(host_program cpio)" -o -H newc --quiet); } >"$RUN/image"
}

# start ACCELERATION SECONDS: one guest; its console goes to standard output, its status to $RUN/control.
start() {
    local firmware=() libraries directory disk=()
    libraries=$(find "$VM/host" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
    for directory in "$VM"/host/usr/share/{qemu,seabios}; do
        [ ! -d "$directory" ] || firmware+=(-L "$directory")
    done
    # What the guest flushed must survive its reset, not this machine's.
    [ -z "$DISK" ] || disk=(-drive "if=none,id=disk,file=$DISK,format=raw,cache=unsafe,discard=unmap" -device "virtio-blk-pci,drive=disk")
    rm -f "$RUN/control"
    LD_LIBRARY_PATH=$libraries timeout -k 5 "$2" "$(host_program qemu-system-x86_64)" "${firmware[@]}" -accel "$1" -cpu max \
        -machine q35 -smp 2 -m "$MEMORY" -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$(echo "$VM"/kernel/boot/vmlinuz-*)" -initrd "$RUN/image" \
        -append "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off no_timer_check tsc=reliable" \
        -serial stdio -serial "file:$RUN/control" ${disk[@]+"${disk[@]}"} </dev/null | tr -d '\r'
}

status_of_guest() { tr -d '\r' <"$RUN/control" 2>/dev/null | sed -n 's/^status //p' | tail -n 1; }

# Which acceleration works, found once for each start of this machine: a /dev/kvm that is there may still not run a guest.
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
    accelerated=$(acceleration)
    write_image
    start "$accelerated" "$SECONDS_MAX" || status=$?
    of_guest=$(status_of_guest || true)
    [ "$status" -ne 124 ] || die 124 "the guest had not ended after $SECONDS_MAX s"
    exit "${of_guest:-125}"
}

main "$@"
