# shellcheck shell=bash
# The part `recorded` of scripts/test-kernel.sh, which sources this file: recordings of I/O on a dataset of the kernel, as
# crates/record/tests/completeness.rs makes them on other file systems, and on a volume, as crates/record/tests/block.rs makes them on other
# devices.

# recorded_stage DIR: the tests, the programs that they run, and the table, for program_disk.
recorded_stage() {
    cp "$POOLWRIGHT_ROOT/docs/recorded-io.md" "$1/"
    strip -o "$1/bin/completeness" "$WORK/completeness"
    strip -o "$1/bin/block" "$WORK/block"
    cp -L "$(command -v mke2fs)" "$1/bin/mkfs.ext4"
    cc -O1 -o "$1/bin/io" "$POOLWRIGHT_ROOT/crates/record/tests/completeness/io.c"
    add_libraries "$1/lib" "$1/bin/completeness" "$1/bin/block" "$1/bin/io" "$1/bin/mkfs.ext4"
}

part_recorded() {
    local disk=$WORK/recorded.disk program=${POOLWRIGHT_COMPLETENESS:-}
    [ -n "$program" ] || program=$(test_program poolwright-record completeness)
    cp "$program" "$WORK/completeness"
    cp "$(test_program poolwright-record block)" "$WORK/block"
    program_disk "$disk" 4G recorded_stage
    # Where the test finds the table and its scratch directory.
    GUEST_STEPS=recorded.sh GUEST_SECONDS=1200 guest "$disk" 0 recorded "$POOLWRIGHT_ROOT" "${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/tmp" "${REWRITE:-}"
    disk_get "$disk" "$WORK" recorded-io.md recorded.out
    grep -A 40 'differences:' "$WORK/recorded.out" || true
    if [ -n "${REWRITE:-}" ] && [ -s "$WORK/recorded-io.md" ]; then cp "$WORK/recorded-io.md" "$POOLWRIGHT_ROOT/docs/"; fi
    rm -f "$disk"
}
