# shellcheck shell=bash
# Functions for the parts in which the guest is reset in the middle of a run, boots again, and continues: scripts/vm/resets.sh and
# scripts/vm/new_pool_resets.sh. These have the functions `prepare`, `round NUMBER` (ends with a reset), `after_reset` (ends the round that
# a reset has interrupted) and `conclude`. /disk/next has the number of the next round, /disk/round describes the interrupted one.

# now: microseconds since 1970.
now() { echo "${EPOCHREALTIME/./}"; }

# seconds MICROSECONDS
seconds() { printf '%d.%03d' $(($1 / 1000000)) $(($1 / 1000 % 1000)); }

# random BELOW: sets R. RANDOM has 15 bits.
# shellcheck disable=SC2034  # The scripts use it.
random() { R=$((((RANDOM << 30) | (RANDOM << 15) | RANDOM) % $1)); }

# sync_always: the pools sync all the time until stop_sync, so that a reset leaves more than what a transaction group has collected.
SYNCER=
sync_always() {
    while :; do zpool sync; pause 0.0$((RANDOM % 9 + 1)); done >/dev/null 2>&1 &
    SYNCER=$!
}

stop_sync() {
    [ -n "$SYNCER" ] || return 0
    kill "$SYNCER"
    wait "$SYNCER" 2>/dev/null
    SYNCER=
}

# reset_after MICROSECONDS PID: resets the guest after this time. Returns if the process has ended before.
reset_after() {
    local until=$(($(now) + $1))
    while [ "$(now)" -lt $until ] && kill -0 "$2" 2>/dev/null; do pause 0.002; done
    if kill -0 "$2" 2>/dev/null; then
        echo b >/proc/sysrq-trigger
        # The reset is immediate.
        while :; do pause 1; done
    fi
}

# watch_boot: if the guest has not been reset after ten minutes, which is four times as long as a boot takes on a busy machine, reports what
# waits, and powers the guest off. Otherwise a command that hangs would only end with the guest's time limit.
watch_boot() {
    local process
    pause 600
    {
        fail "ten minutes after the boot, the guest has not been reset; processes, then blocked tasks:"
        for process in /proc/[0-9]*; do
            [ -s "$process/cmdline" ] || continue
            printf '%s %s %s\n' "${process#/proc/}" "$(cat "$process/wchan")" "$(tr '\0' ' ' <"$process/cmdline" | cut -c 1-160)"
            sed 's/^/    /' "$process/stack"
        done
        echo 8 >/proc/sys/kernel/printk
        echo w >/proc/sysrq-trigger
        pause 5
        tail -n 5 /tmp/said
    } 2>&1
    echo o >/proc/sysrq-trigger
}

step_resets() {
    local number
    watch_boot &
    if [ ! -e /disk/next ]; then
        prepare
    elif [ -e /disk/round ]; then
        after_reset
    fi
    number=$(cat /disk/next)
    if [ "$number" -le $((2 * RESETS)) ]; then
        round "$number"
        exit 1
    fi
    conclude
}

# Otherwise SEEK_HOLE waits for a transaction group, in an emulated guest for long. The rounds have transaction groups enough.
echo 0 >/sys/module/zfs/parameters/zfs_dmu_offset_next_sync
echo 1 >/sys/module/zfs/parameters/zfs_txg_timeout
