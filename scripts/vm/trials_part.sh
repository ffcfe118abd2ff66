# shellcheck shell=bash
# The part `trials` of scripts/test-kernel.sh, which sources this file: `replay --on`, trials on a pool of the kernel.

# The directory of the database, here and in the guest: a recording names its files by their paths.
TRIALS_DATABASE=/tmp/poolwright-trials-database

# trials_record: records a SQLite database under load as $WORK/trials/sqlite.parquet; its files are in $TRIALS_DATABASE.
trials_record() {
    local dir=$WORK/trials load status=0
    rm -rf "$TRIALS_DATABASE"
    mkdir -p "$dir"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/arc_load.py" prepare sqlite "$TRIALS_DATABASE"
    # The load is under way when the recording begins: a recording that begins idle leaves nothing for short trials.
    PYTHONPATH=$POOLWRIGHT_ROOT/scripts/vm PYTHONDONTWRITEBYTECODE=1 python3 -c '
import sys
from pathlib import Path
import arc_load
arc_load.run_sqlite(Path(sys.argv[1]))' "$TRIALS_DATABASE" &
    load=$!
    sleep 2
    "$PROGRAM" record --force --dir "$TRIALS_DATABASE" --for 30s -o "$dir/sqlite.parquet" >"$WORK/recorded" 2>&1 || status=$?
    wait $load || status=$?
    [ $status -eq 0 ] || fail "recording the SQLite database: status $status: $(tail -n 3 "$WORK/recorded" | tr '\n' ' ')"
    return $status
}

# trials_stage DIR: the recording, the database's files and the conformance tests of targets, for program_disk.
trials_stage() {
    cp "$WORK/trials/sqlite.parquet" "$1/"
    cp -r "$TRIALS_DATABASE" "$1/data"
    cp "$POOLWRIGHT_ROOT/scripts/vm/pool_state.sh" "$1/"
    # That of busybox cannot change the user.
    cp -L "$(command -v setpriv)" "$1/bin/setpriv"
    strip -o "$1/bin/targets" "$WORK/trials/targets"
    add_libraries "$1/lib" "$1/bin/targets" "$1/bin/setpriv"
}

# test_program PACKAGE TEST: builds the program of a package's test, and prints its path.
test_program() {
    cargo test --release --locked -p "$1" --test "$2" --no-run --message-format json |
        sed -n "s|.*\"executable\":\"\([^\"]*/$2-[^\"]*\)\".*|\1|p"
}

part_trials() {
    local disk=$WORK/trials.disk targets=${POOLWRIGHT_TARGETS:-}
    [ "$(id -u)" -eq 0 ] || { fail "part trials records a database, which requires root"; return 0; }
    trials_record || return 0
    [ -n "$targets" ] || targets=$(test_program poolwright-replay targets)
    cp "$targets" "$WORK/trials/targets"
    program_disk "$disk" 12G trials_stage
    GUEST_STEPS=trials.sh GUEST_SECONDS=3600 guest "$disk" 0 trials "$TRIALS_DATABASE"
    rm -rf "$disk" "$TRIALS_DATABASE"
}
