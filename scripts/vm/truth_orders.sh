# shellcheck shell=bash
# Workloads of `truth.sh` whose store runs in the process of the load (workloads/orders), with 600,000 orders. scripts/truth/guest.sh describes
# the functions. A file that sources this one sets STORE, the name of the store's file in workloads/orders and of its library.

orders_load() {
    local sources=$POOLWRIGHT_ROOT/workloads/orders
    LOAD=$POOLWRIGHT_ROOT/target/vm/$STORE-load
    mkdir -p "$POOLWRIGHT_ROOT/target/vm"
    cc -O2 -Wall -Wextra -o "$LOAD" "$sources/load.c" "$sources/$STORE.c" "-l$STORE" -lpthread
}

workload_fill() {
    orders_load || return
    mkdir -p "$1/data"
    "$LOAD" fill "$1/data" "$(awk -v size="$SIZE" 'BEGIN { print int(600000 * size) }')"
}

workload_stage() {
    orders_load || return
    add_programs "$2" "$LOAD"
}

workload_start() { :; }

workload_stop() { :; }

workload_load() { "$STORE-load" run "$1" "$3" "$CLIENTS"; }
