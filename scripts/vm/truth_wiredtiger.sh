# shellcheck shell=bash
# The workload `wiredtiger` of `truth.sh`: WiredTiger, MongoDB's store, in the process of the load (workloads/wiredtiger), with 600,000 orders and
# a cache of 64M. Compiling the load requires Debian's package libwiredtiger-dev.

wiredtiger_load() {
    mkdir -p "$POOLWRIGHT_ROOT/target/vm"
    cc -O2 -Wall -Wextra -o "$POOLWRIGHT_ROOT/target/vm/wiredtiger-load" "$POOLWRIGHT_ROOT/workloads/wiredtiger/load.c" -lwiredtiger -lpthread
}

workload_fill() {
    wiredtiger_load || return
    mkdir -p "$1/data"
    "$POOLWRIGHT_ROOT/target/vm/wiredtiger-load" fill "$1/data" "$(awk -v size="$SIZE" 'BEGIN { print int(600000 * size) }')"
}

workload_stage() {
    wiredtiger_load || return
    add_programs "$2" "$POOLWRIGHT_ROOT/target/vm/wiredtiger-load"
}

workload_start() { :; }

workload_stop() { :; }

workload_load() { wiredtiger-load run "$1" "$3" "$CLIENTS"; }
