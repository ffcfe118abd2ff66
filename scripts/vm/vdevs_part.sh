# shellcheck shell=bash
# The part `vdevs` of scripts/test-kernel.sh: the engine changes the vdevs of a pool, the kernel imports it, scrubs it and changes them
# again, and the engine reads the result. Sourced, never run.

# on_pool POOL VERB FILE...: runs `poolwright pool VERB POOL FILE...` with the files of the pool in VDEVS.
on_pool() {
    local pool=$1 verb=$2 file files=()
    shift 2
    for file in "${VDEVS[@]}"; do
        files+=(--pool-file "$WORK/$file")
    done
    POOLWRIGHT_STATE_DIR=$WORK/vdevs.state POOLWRIGHT_RUNTIME_DIR=$WORK/vdevs.run "$PROGRAM" pool "$verb" "$pool" "$@" "${files[@]}" 2>&1
}

# add_and_remove POOL: adds a log, a cache and a spare, and removes them.
add_and_remove() {
    local pool=$1 kept=("${VDEVS[@]}") use
    expect "$pool: the engine adds another log, a cache and another spare" into "$WORK/said" \
        on_pool "$pool" add log "$pool.m:128M" cache "$pool.x:128M" spare "$pool.u:512M" || return
    VDEVS+=("$pool.m" "$pool.x" "$pool.u")
    for use in m x u; do
        expect "$pool: the engine removes $pool.$use" into "$WORK/said" on_pool "$pool" remove "$pool.$use" || return
    done
    VDEVS=("${kept[@]}")
}

part_vdevs() {
    local number=$((SEED + 50))
    local pool=tree$number disk=$WORK/vdevs.disk
    local VDEVS=("$pool")
    cd "$WORK" || return
    expect "$pool: the engine makes $((NODES / 10)) nodes" "$TREE" make "$WORK/$pool" "$number" "$((NODES / 10))" || return 0
    read_here "$pool" "$pool" "$pool.here"
    expect "$pool: the engine attaches a second file" into "$WORK/said" on_pool "$pool" attach "$pool" "$pool.b" || return 0
    VDEVS=("$pool" "$pool.b")
    expect "$pool: the engine replaces the first file" into "$WORK/said" on_pool "$pool" replace "$pool" "$pool.c" || return 0
    VDEVS=("$pool.b" "$pool.c")
    expect "$pool: the engine adds a mirror, a log and a spare" into "$WORK/said" \
        on_pool "$pool" add mirror "$pool.d:512M" "$pool.e:512M" log "$pool.l:128M" spare "$pool.s:512M" || return 0
    VDEVS+=("$pool.d" "$pool.e" "$pool.l" "$pool.s")
    add_and_remove "$pool" || return 0
    # The replaced file and the removed ones must not be taken for vdevs of the pool: they stay beside the others.
    disk_make "$disk" 4G "$pool" "${VDEVS[@]}" "$pool.m" "$pool.x" "$pool.u"
    guest "$disk" 0 take_vdevs "$pool"
    disk_get "$disk" "$WORK" "${VDEVS[@]}" "$pool.t" "$pool.read"
    same "$pool: the kernel reads what the engine made" "$pool.here" "$pool.read"
    # The kernel has detached one file of each mirror, removed the log, and added a second spare.
    VDEVS=("$pool.c" "$pool.d" "$pool.s" "$pool.t")
    expect "$pool: the engine imports what the kernel left" into "$WORK/said" on_pool "$pool" status || return 0
    if grep -Eq "/$pool\.s +AVAIL" "$WORK/said" && grep -Eq "/$pool\.t +AVAIL" "$WORK/said"; then
        pass "$pool: the engine shows both spares as AVAIL"
    else
        fail "$pool: $(cat "$WORK/said")"
    fi
    expect "$pool: the engine scrubs what the kernel left" into "$WORK/said" on_pool "$pool" scrub -w || return 0
    expect "$pool: the engine attaches a file again" into "$WORK/said" on_pool "$pool" attach "$pool.c" "$pool.f"
    if grep -q ' with 0 errors' "$WORK/said"; then pass "$pool: resilvered with 0 errors"; else fail "$pool: $(cat "$WORK/said")"; fi
}
