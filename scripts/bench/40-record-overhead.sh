#!/usr/bin/env bash
# Measures the cost of recording a busy MariaDB: transactions per second, and CPU time per transaction (server and recorder together),
# in pairs of runs with and without the recorder. Also compares the number of recorded reads with InnoDB's own count.
#
# usage: scripts/bench/40-record-overhead.sh
#
# Environment (default in parentheses):
#   RECORD_PAIRS    pairs of runs (10)
#   RECORD_SECONDS  length of a run (12)
#   POOLWRIGHT      the program (target/release/poolwright)
#
# Uses a private server with its own data. The order within a pair alternates, so that a drift of the machine or of the data favours
# neither side.
#
# Exit status: 0 done, or skipped because BPF is not permitted; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

WORKLOAD=$POOLWRIGHT_ROOT/workloads/mariadb
POOLWRIGHT=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
RECORD_COUNT=$(dirname -- "$POOLWRIGHT")/record-count
PAIRS=${RECORD_PAIRS:-10}
SECONDS_EACH=${RECORD_SECONDS:-12}
SCALE=0.5
if [ "${BENCH_SMOKE:-0}" = 1 ]; then
    PAIRS=2 SECONDS_EACH=3 SCALE=0.3
fi

OWN_SCRATCH=
if [ -z "${BENCH_SCRATCH:-}" ]; then
    BENCH_SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")
    OWN_SCRATCH=yes
fi
DIR=$BENCH_SCRATCH/mariadb
RECORDER=

clean_up() {
    local status=$?
    trap - EXIT ERR
    [ -z "$RECORDER" ] || kill -INT "$RECORDER" 2>/dev/null || true
    [ ! -e "$DIR/my.cnf" ] || "$WORKLOAD/server.sh" stop "$DIR" >/dev/null || true
    [ -z "$OWN_SCRATCH" ] || rm -rf -- "$BENCH_SCRATCH"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# permitted: whether the recorder can run here. If it cannot, its message contains "cannot record". An empty recording also fails with
# status 1, but shows that recording is possible.
permitted() {
    local message
    message=$("$POOLWRIGHT" record --dir "$BENCH_SCRATCH" --for 10ms -o "$BENCH_SCRATCH/probe.parquet" 2>&1) || true
    rm -f "$BENCH_SCRATCH/probe.parquet"
    case $message in *"cannot record"*) say "BENCH-SKIP $message"; return 1 ;; esac
}

# ticks PID: the CPU time of a process, in clock ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

innodb_reads() {
    mariadb --defaults-file="$DIR/my.cnf" -NBe "SHOW GLOBAL STATUS LIKE 'Innodb_data_reads'" | cut -f 2
}

# load SEED: runs the load; prints transactions per second, the server's CPU ticks, and the number of transactions.
load() {
    local server before
    server=$(cat "$DIR/pid")
    before=$(ticks "$server")
    "$WORKLOAD/load.sh" "$DIR" --time "$SECONDS_EACH" --threads 4 --seed "$1" >"$BENCH_SCRATCH/load.log" 2>&1 \
        || { tail -n 20 "$BENCH_SCRATCH/load.log" >&2; die 1 "the load failed (its last lines are above)"; }
    sed -n "s/.*transactions: *\([0-9]*\) *(\([0-9.]*\) per sec.*/\2 $(($(ticks "$server") - before)) \1/p" \
        "$BENCH_SCRATCH/load.log"
    # Purge the binary log between the runs, or it would fill the disk.
    mariadb --defaults-file="$DIR/my.cnf" -e "FLUSH BINARY LOGS; PURGE BINARY LOGS BEFORE NOW()"
}

plain() { printf 'plain %s %s\n' "$1" "$(load "$1")" | tee -a "$BENCH_SCRATCH/runs"; }

recorded() {
    local rate ticks
    "$POOLWRIGHT" record --force --dir "$DIR/data" -o "$BENCH_SCRATCH/trace.parquet" --json >"$BENCH_SCRATCH/record.json" &
    RECORDER=$!
    sleep 1 # the recorder loads its BPF programs and scans the directory
    ticks=$(ticks "$RECORDER")
    rate=$(load "$1")
    ticks=$(($(ticks "$RECORDER") - ticks))
    kill -INT "$RECORDER"
    wait "$RECORDER" || die 1 "the recorder failed"
    RECORDER=
    printf 'recorded %s %s %s ' "$1" "$rate" "$ticks" | tee -a "$BENCH_SCRATCH/runs"
    python3 -c 'import json,sys; r=json.load(sys.stdin); print(r["events"], r["seconds"], r["lost_events"])' \
        <"$BENCH_SCRATCH/record.json" | tee -a "$BENCH_SCRATCH/runs"
}

permitted || exit 0
"$WORKLOAD/server.sh" start "$DIR"
"$WORKLOAD/fill.sh" "$DIR" --scale "$SCALE" >"$BENCH_SCRATCH/fill.log" 2>&1 \
    || { tail -n 20 "$BENCH_SCRATCH/fill.log" >&2; die 1 "the fill failed (its last lines are above)"; }
load 1 >/dev/null # warm the buffer pool for all runs
for ((pair = 1; pair <= PAIRS; pair++)); do
    if ((pair % 2)); then plain $pair; recorded $pair; else recorded $pair; plain $pair; fi
done

# The server writes back dirty pages after a load. Wait before and after the counted load, so that no read falls between the two
# counts.
sleep 2
"$RECORD_COUNT" "$DIR/data" $((SECONDS_EACH + 5)) "$BENCH_SCRATCH/trace.parquet" >"$BENCH_SCRATCH/counts" &
RECORDER=$!
sleep 1
before=$(innodb_reads)
load 99 >/dev/null
sleep 2
counted=$(($(innodb_reads) - before))
wait "$RECORDER" || die 1 "the recorder failed"
RECORDER=
seen=$(awk '$2 == "read" && $NF ~ /(\.ibd|ibdata[0-9]+|undo[0-9]+)$/ { n += $1 } END { print n + 0 }' \
    "$BENCH_SCRATCH/counts")
printf 'reads %s %s\n' "$seen" "$counted" >>"$BENCH_SCRATCH/runs"
python3 "$(dirname -- "$0")/record_overhead.py" "$(getconf CLK_TCK)" <"$BENCH_SCRATCH/runs"
