# shellcheck shell=bash
# The part `arc` of scripts/test-kernel.sh, which sources this file: replays of traces on the engine and in a kernel's datasets.

arc_compare() { PYTHONDONTWRITEBYTECODE=1 python3 "$POOLWRIGHT_ROOT/scripts/vm/arc.py" "$@"; }

# arc_record LOAD DIR: records a load as DIR/LOAD.parquet; its files are in DIR/data/LOAD. `record` needs root.
arc_record() {
    local load=$1 dir=$2 recorder status=0
    python3 "$POOLWRIGHT_ROOT/scripts/vm/arc_load.py" prepare "$load" "$dir/data/$load"
    "$PROGRAM" record --force --dir "$dir/data/$load" -o "$dir/$load.parquet" >"$WORK/recorded" 2>&1 &
    recorder=$!
    sleep 3
    python3 "$POOLWRIGHT_ROOT/scripts/vm/arc_load.py" run "$load" "$dir/data/$load" || status=$?
    sleep 1
    kill -INT $recorder 2>/dev/null || true
    wait $recorder || status=$?
    [ $status -ne 0 ] || "$PROGRAM" trace --json show "$dir/$load.parquet" >"$dir/$load.show" || status=$?
    [ $status -eq 0 ] || {
        fail "recording $load: status $status: $(tail -n 3 "$WORK/recorded" | tr '\n' ' ')"
        return 1
    }
    pass "recorded $load: $(head -n 1 "$WORK/recorded" | sed 's/^[^:]*: //')"
}

# arc_stage DIR: the traces, their files and the settings, for program_disk.
arc_stage() {
    mkdir "$1/traces"
    cp "$WORK"/arc/*.parquet "$1/traces/"
    cp -r "$WORK/arc/data" "$1/data"
    arc_compare settings "$WORK/arc" >"$1/settings"
}

part_arc() {
    local disk=$WORK/arc.disk dir=$WORK/arc load engine limits
    if [ -n "${POOLWRIGHT_TRACES:-}" ]; then
        cp -r "$POOLWRIGHT_TRACES" "$dir"
    else
        [ "$(id -u)" -eq 0 ] || { fail "part arc records traces, which requires root"; return 0; }
        mkdir -p "$dir/data"
        for load in oltp scan sqlite; do
            arc_record "$load" "$dir" || true
        done
    fi
    program_disk "$disk" 16G arc_stage
    # Both replays are paced, so neither depends on the speed of the machine.
    arc_compare engine "$PROGRAM" "$dir" "$dir/data" >"$WORK/arc.engine" 2>&1 &
    engine=$!
    read -ra limits < <(arc_compare limits)
    GUEST_STEPS=arc.sh GUEST_SECONDS=5400 guest "$disk" 0 replay "${limits[@]}"
    expect "the engine replayed all" wait $engine || tail -n 3 "$WORK/arc.engine"
    disk_get "$disk" "$WORK" arc.tar
    tar -C "$dir" -xf "$WORK/arc.tar" || fail "the guest wrote no results"
    arc_compare compare "$dir" >"$WORK/arc.table" || fail "arc.py compare ended with status $?"
    report_table "$WORK/arc.table"
    rm -rf "$disk"
}
