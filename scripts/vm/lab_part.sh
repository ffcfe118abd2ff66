# shellcheck shell=bash
# The part `lab` of scripts/test-kernel.sh, which sources this file: a campaign (`lab run --on`) and a confirmation (`confirm --on`)
# in datasets of a pool of the kernel.

# lab_python DIR: Python and its standard library, for the driver.
lab_python() {
    local python stdlib
    python=$(command -v python3)
    stdlib=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    mkdir -p "$1/python/lib"
    cp -L "$("$python" -c 'import sys; print(sys.executable)')" "$1/bin/python3"
    tar -C "$(dirname "$stdlib")" --exclude=__pycache__ --exclude='*/test' --exclude='*/idlelib' --exclude='*-packages' --exclude='config-*' \
        -chf - "$(basename "$stdlib")" | tar -C "$1/python/lib" -xf -
    # Modules in C need libraries too.
    add_libraries "$1/lib" "$1/bin/python3" "$1"/python/lib/*/lib-dynload/*.so
}

# lab_stage DIR: the campaign, its driver and the conformance tests of the lab's targets, for program_disk.
lab_stage() {
    local fixture=$POOLWRIGHT_ROOT/crates/poolwright/tests/fixtures/smoke.toml
    lab_python "$1"
    mkdir -p "$1/share/workloads/lab" "$1/share/campaigns"
    cp "$POOLWRIGHT_ROOT/workloads/lab/files" "$1/share/workloads/lab/"
    cp "$fixture" "$1/smoke.toml"
    sed 's/^name = "smoke"/name = "cold"/; s/^name = "read"/&\ncold = true/' "$fixture" >"$1/cold.toml"
    cp "$POOLWRIGHT_ROOT/scripts/vm/pool_state.sh" "$1/"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/plan.py" /scratch/app none --log log |
        sed 's/{@RECOMMENDED@}/{"recordsize": "16K", "compression": "zstd-3"}/' >"$1/confirm.json"
    # That of busybox cannot change the user.
    cp -L "$(command -v setpriv)" "$1/bin/setpriv"
    strip -o "$1/bin/lab_targets" "$WORK/lab_targets"
    add_libraries "$1/lib" "$1/bin/lab_targets" "$1/bin/setpriv"
}

part_lab() {
    local disk=$WORK/lab.disk targets=${POOLWRIGHT_LAB_TARGETS:-}
    [ -n "$targets" ] || targets=$(test_program poolwright integration)
    cp "$targets" "$WORK/lab_targets"
    program_disk "$disk" 8G lab_stage
    GUEST_STEPS=lab_on.sh GUEST_SECONDS=2400 guest "$disk" 0 lab
    disk_get "$disk" "$WORK" report.txt || fail "the guest wrote no report"
    sed 's/^/  /' "$WORK/report.txt" 2>/dev/null || true
    rm -f "$disk"
}
