# shellcheck shell=bash
# The part `send` of scripts/test-kernel.sh, which sources this file: `poolwright backup send` between two pools of the kernel.

part_send() {
    local disk=$WORK/send.disk
    program_disk "$disk" 6G
    GUEST_STEPS=send.sh GUEST_SECONDS=3600 guest "$disk" 0 send
    rm -f "$disk"
}
