# shellcheck shell=bash
# The part `standby` of scripts/test-kernel.sh, which sources this file: a PostgreSQL moves to another pool by a standby server.

# standby_stage DIR: a PostgreSQL, the programs of util-linux that make mounts of their own, and a plan, for program_disk.
standby_stage() {
    local name programs=() bin
    bin=$(postgres_programs)
    postgres_data "$1"
    mkdir -p "$1/util"
    for name in unshare mount mountpoint setpriv; do
        cp -L "$(command -v $name)" "$1/util/"
        programs+=("$1/util/$name")
    done
    add_libraries "$1/lib" "${programs[@]}" "$bin/pg_basebackup" "$bin/pg_verifybackup" "$bin/pg_controldata"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/plan.py" /srv/db tank/db --database PostgreSQL >"$1/plan.template"
}

part_standby() {
    local disk=$WORK/standby.disk
    program_disk "$disk" 12G standby_stage
    GUEST_STEPS=standby.sh GUEST_SECONDS=2400 guest "$disk" 0 standby
    rm -f "$disk"
}
