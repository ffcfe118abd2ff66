#!/usr/bin/env bash
# Tests campaigns on a cluster (`make test-cluster`): a private Slurm of three nodes on this machine that share a directory.
#
# usage: scripts/test-cluster.sh [--keep]
#
# While 60 trials run, a node is killed and started again, and the controller is killed and started again. Then every trial must have
# one result, the tables must be those of a local run, and no process, mount or file may be left. Skipped where a part cannot be used.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$POOLWRIGHT_ROOT"

TRIALS=60 TASKS=12
# Seconds. The machine may be slow: each limit is many times what the step takes.
PATIENCE=1200
CLUSTER=scripts/slurm/cluster.sh
PROGRAM=$(realpath -m "${CARGO_TARGET_DIR:-target}/release/poolwright")
KEEP=no
DIR=
JOB_PID=

skip() { say "SKIPPED: $*"; exit 0; }

fail() { say "test-cluster.sh: failed: $*"; exit 1; }

cleanup() {
    local status=$?
    trap - EXIT
    [ -z "$JOB_PID" ] || kill "$JOB_PID" 2>/dev/null || true
    if [ -n "$DIR" ]; then
        [ ! -e "$DIR/c" ] || "$CLUSTER" stop "$DIR/c" || true
        if [ $KEEP = yes ] || [ $status -ne 0 ]; then say "kept: $DIR"; else rm -rf -- "$DIR"; fi
    fi
    exit $status
}

results() { find "$DIR/shared/results" -name '*.json' ! -name '.*' 2>/dev/null | wc -l; }

# until_ended NUMBER: waits until so many trials have results.
until_ended() {
    local limit=$((SECONDS + PATIENCE))
    while [ "$(results)" -lt "$1" ]; do
        kill -0 "$JOB_PID" 2>/dev/null || fail "the job ended early: $(tail -n 5 "$DIR/job.log" "$DIR"/logs/*)"
        [ $SECONDS -lt $limit ] || fail "$1 trials have not ended in time"
        sleep 0.5
    done
}

# kill_busy_node: kills a node that has claimed a task. Sets NODE. A task may end in the moment before; then it is another one's turn, and the
# node is started again.
kill_busy_node() {
    local limit=$((SECONDS + PATIENCE)) claim
    while :; do
        [ $SECONDS -lt $limit ] || fail "no task runs"
        claim=$(find "$DIR/shared/claimed" -name '*@node*' | head -n 1)
        [ -n "$claim" ] || { sleep 0.1; continue; }
        NODE=${claim##*@node}
        "$CLUSTER" kill-node "$DIR/c" "$NODE"
        [ ! -e "$claim" ] || break
        "$CLUSTER" start-node "$DIR/c" "$NODE"
    done
}

check() {
    local what=$1 found=$2 expected=$3
    [ "$found" = "$expected" ] || fail "$what: $found instead of $expected"
    say "  ok: $what: $found"
}

while [ $# -gt 0 ]; do
    case $1 in
        --keep) KEEP=yes ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    shift
done
[ -w /dev/fuse ] || skip "/dev/fuse cannot be used here"
scripts/slurm/packages.sh || skip "Slurm's packages cannot be downloaded"
[ -x "$PROGRAM" ] || cargo build --release --locked -p poolwright
trap cleanup EXIT
trap 'exit 130' INT TERM
DIR=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-slurm.XXXXXX")
chmod 0755 "$DIR"

step "A Slurm of three nodes" "$CLUSTER" start "$DIR/c" 3
share() { "$PROGRAM" lab share scripts/slurm/slurm.toml "$DIR/shared" --results "$DIR/cluster.db" --lease 10s --json; }
share >"$DIR/before.json"
mkdir "$DIR/logs"
say "== $TRIALS trials; a node and the controller are killed meanwhile"
BEGAN=$SECONDS
(
    eval "$("$CLUSTER" env "$DIR/c")"
    exec sbatch --wait --array=0-$((TASKS - 1)) --nodes=1 --exclusive --requeue --open-mode=append --output="$DIR/logs/%a.log" <<END
#!/bin/sh
exec "$PROGRAM" lab task "\$SLURM_ARRAY_TASK_ID" --shared "$DIR/shared" --node "\$SLURMD_NODENAME" --scratch "$DIR/scratch"
END
) >"$DIR/job.log" 2>&1 &
JOB_PID=$!
until_ended 6
kill_busy_node
say "  killed node$NODE, with a trial on it"
until_ended 20
"$CLUSTER" restart-controller "$DIR/c"
say "  killed the controller, and started it again"
until_ended 35
"$CLUSTER" start-node "$DIR/c" "$NODE"
say "  started node$NODE again"
wait "$JOB_PID" || fail "the job: status $?: $(tail -n 5 "$DIR/job.log" "$DIR"/logs/*)"
JOB_PID=
say "== $TRIALS trials: $((SECONDS - BEGAN)) s"
share >"$DIR/after.json"

# figure NAME: a figure of `lab share` after the job.
figure() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$DIR/after.json" "$1"; }
check "results in the directory" "$(figure collected)" $TRIALS
check "trials that have succeeded" "$(figure succeeded)" $TRIALS
check "trials that are missing" "$(figure missing)" 0
"$PROGRAM" lab report scripts/slurm/slurm.toml --results "$DIR/cluster.db" --csv >"$DIR/cluster.csv"
# columns NAME...: these columns of each trial.
columns() {
    python3 -c 'import csv, sys
for row in sorted({tuple(row[name] for name in sys.argv[2:]) for row in csv.DictReader(open(sys.argv[1]))}): print(*row)' "$DIR/cluster.csv" "$@"
}
check "nodes with trials" "$(columns node | wc -l)" 3
say "  blocks that are on more than one node: $(columns block node | cut -d' ' -f1 | uniq -d | wc -l) of $TASKS"
step "The same run locally" "$PROGRAM" lab run scripts/slurm/slurm.toml --results "$DIR/local.db" --scratch "$DIR" >"$DIR/local.log" 2>&1
"$PROGRAM" lab report scripts/slurm/slurm.toml --results "$DIR/cluster.db" --json >"$DIR/cluster.json"
"$PROGRAM" lab report scripts/slurm/slurm.toml --results "$DIR/local.db" --json >"$DIR/local.json"
scripts/slurm/compare.py "$DIR/cluster.json" "$DIR/local.json"

step "Stopping the cluster" "$CLUSTER" stop "$DIR/c"
check "mounts that are left" "$(grep -c " $DIR/" /proc/mounts || true)" 0
check "scratch directories that are left" "$(find "$DIR/scratch" -mindepth 1 | wc -l)" 0
say "test-cluster.sh: ok"
