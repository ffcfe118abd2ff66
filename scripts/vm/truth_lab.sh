# shellcheck shell=bash
# Workloads of `truth.sh` that workloads/lab/truth_NAME.py implements: scripts/vm/truth_lab.py runs them on this machine and in the guest.
# scripts/truth/guest.sh describes the functions. A file that sources this one sets LAB (the NAME) and LAB_SIZE, and stages the programs.

LAB_PROGRAM=$POOLWRIGHT_ROOT/scripts/vm/truth_lab.py

workload_fill() { lab_fill "$1"; }

# lab_size: the size of the workload's database with the option --size.
lab_size() { awk -v lab="$LAB_SIZE" -v size="$SIZE" 'BEGIN { print lab * size }'; }

lab_fill() { python3 "$LAB_PROGRAM" fill "$LAB" "$1/data" --size "$(lab_size)"; }

# lab_stage STAGE: adds Python and the lab's modules to the guest's disk.
lab_stage() {
    local library
    library=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    add_programs "$1" /usr/bin/python3
    add_libraries "$1" "$library"/lib-dynload/*.so
    mkdir -p "$1$library" "$1/poolwright/workloads/lab"
    tar -C "$library" --exclude=test --exclude=idlelib --exclude=lib2to3 --exclude='config-*' -c . | tar -C "$1$library" -x
    cp -r "$POOLWRIGHT_ROOT"/workloads/lab/{*.py,common} "$1/poolwright/workloads/lab/"
    cp "$LAB_PROGRAM" "$1/poolwright/scripts/vm/"
}

workload_start() {
    export PYTHONHOME=/disk/usr
    # That of an earlier run says "ready", too.
    : >"$2/serve.log"
    python3 "$LAB_PROGRAM" serve "$LAB" "$1" --size "$(lab_size)" --scratch "$2" >"$2/serve.log" 2>&1 &
    LAB_SERVER=$!
    until grep -q '^ready$' "$2/serve.log"; do
        kill -0 "$LAB_SERVER" 2>/dev/null || { cat "$2/serve.log"; return 1; }
        sleep 0.1
    done
}

workload_stop() {
    kill "$LAB_SERVER"
    wait "$LAB_SERVER"
}

workload_load() {
    exec python3 "$LAB_PROGRAM" load "$LAB" "$1" --size "$(lab_size)" --scratch "$2" --seconds "$3" --clients "$CLIENTS"
}
