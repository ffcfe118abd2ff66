#!/usr/bin/env bash
# What recording costs a busy MariaDB: transactions a second, and CPU time a transaction (of the server and the
# recorder together), of pairs of runs, one recorded and one not. And whether the recorder saw what the server did:
# InnoDB's own count of the reads it issued, against the recorded ones.
#
# usage: scripts/bench/40-record-overhead.sh
#
# RECORD_PAIRS (10) pairs of RECORD_SECONDS (12) each, on a server and data of its own. Which run of a pair comes
# first alternates, so that a drift of the machine or of the data does not favour one side. POOLWRIGHT names
# another binary than target/release/poolwright.
# Exit status: 0 done, or skipped because BPF is not permitted; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

WORKLOAD=$POOLWRIGHT_ROOT/workloads/mariadb
POOLWRIGHT=${POOLWRIGHT:-$POOLWRIGHT_ROOT/target/release/poolwright}
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

# The recorder says why it cannot; "nothing was recorded" (status 1, on standard error too) means that it can.
permitted() {
    local said
    said=$("$POOLWRIGHT" record --dir "$BENCH_SCRATCH" --for 10ms -o "$BENCH_SCRATCH/probe.parquet" 2>&1) || true
    rm -f "$BENCH_SCRATCH/probe.parquet"
    case $said in *"cannot record"*) say "BENCH-SKIP $said"; return 1 ;; esac
}

# CPU time of a process so far, in ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

innodb_reads() {
    mariadb --defaults-file="$DIR/my.cnf" -NBe "SHOW GLOBAL STATUS LIKE 'Innodb_data_reads'" | cut -f 2
}

# The transactions a second of one run, and the server's CPU ticks and transactions in it.
load() {
    local server before
    server=$(cat "$DIR/pid")
    before=$(ticks "$server")
    "$WORKLOAD/load.sh" "$DIR" --time "$SECONDS_EACH" --threads 4 --seed "$1" >"$BENCH_SCRATCH/load.log" 2>&1 \
        || { tail -n 20 "$BENCH_SCRATCH/load.log" >&2; die 1 "the load failed (its last lines are above)"; }
    sed -n "s/.*transactions: *\([0-9]*\) *(\([0-9.]*\) per sec.*/\2 $(($(ticks "$server") - before)) \1/p" \
        "$BENCH_SCRATCH/load.log"
    # The binary log would fill the disk in the end; this happens between the runs.
    mariadb --defaults-file="$DIR/my.cnf" -e "FLUSH BINARY LOGS; PURGE BINARY LOGS BEFORE NOW()"
}

plain() { printf 'plain %s %s\n' "$1" "$(load "$1")" | tee -a "$BENCH_SCRATCH/runs"; }

recorded() {
    local rate ticks
    "$POOLWRIGHT" record --dir "$DIR/data" -o "$BENCH_SCRATCH/trace.parquet" --json >"$BENCH_SCRATCH/record.json" &
    RECORDER=$!
    sleep 1 # until the programs are loaded and the directory has been walked
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
load 1 >/dev/null # a warm buffer pool for all
for ((pair = 1; pair <= PAIRS; pair++)); do
    if ((pair % 2)); then plain $pair; recorded $pair; else recorded $pair; plain $pair; fi
done

# The server is still writing back after a load: it is left alone for a while on both sides, so that no read is
# between the two counts.
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
