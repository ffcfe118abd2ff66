#!/usr/bin/env bash
# Whether the campaigns can be relied on: what `make check-lab` does.
#
# usage: scripts/lab/check.sh resume|agree [--scale SCALE] [CAMPAIGN...]
#
#   resume   kills a campaign with -9 (twice, at times drawn from a seed that is printed) and starts it again until it
#            ends: every trial has to be there once, and nothing may be left behind
#   agree    runs a campaign twice with the same seed: at least 90 % of the cells have to agree within the intervals
#            that the two runs print. The run that `resume` left is the first of the two.
#
# Both run the campaigns as they are, so an idle machine is needed. Results are in lab-results/check/. CHECK_SEED draws
# the times of the kills.
#
# Exit status: 0 all as it should be, 1 something is not, 2 wrong usage, 130 interrupted.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

RESULTS=$POOLWRIGHT_ROOT/lab-results/check
SCALE=small
CAMPAIGNS=()
FAILED=()
RUNNING=

poolwright() { "${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright" "$@"; }

parse_arguments() {
    case ${1:-} in
        resume | agree) WHAT=$1 ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "say resume or agree; see --help" ;;
    esac
    shift
    while [ $# -gt 0 ]; do
        case $1 in
            --scale) SCALE=${2:?--scale needs a value}; shift ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *) CAMPAIGNS+=("$1") ;;
        esac
        shift
    done
}

clean_up() {
    local status=$?
    trap - EXIT ERR
    [ -z "$RUNNING" ] || kill -INT "$RUNNING" 2>/dev/null || true
    exit "$status"
}
trap clean_up EXIT

# killed NAME SECONDS: true if the run was still going then and was killed; false if it had ended.
killed() {
    "${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright" lab run "$1" --scale "$SCALE" --results "$RESULTS/$1.db" \
        >>"$RESULTS/$1.log" 2>&1 &
    RUNNING=$!
    for _ in $(seq "$2"); do
        sleep 1
        kill -0 "$RUNNING" 2>/dev/null || break
    done
    kill -KILL "$RUNNING" 2>/dev/null || { RUNNING=; return 1; }
    wait "$RUNNING" 2>/dev/null || true
    RUNNING=
}

# Trials that are wanted, and finished trials in the results.
wanted() {
    poolwright lab list --json | python3 -c 'import json, sys
print(next(c["trials"] for c in json.load(sys.stdin) if c["name"] == sys.argv[1]))' "$1"
}
finished() {
    python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(*db.execute("select count(*), count(distinct study || levels || block) from lab_trial where failed is null").fetchone())' "$1"
}

# Kernel's view of what a killed run leaves; the program clears it at its next start.
left_behind() { grep -c ' fuse\.poolwright .*lab' /proc/mounts || true; }

check_resume() {
    local name=$1 after
    rm -f "$RESULTS/$name.db" "$RESULTS/$name.log"
    for _ in 1 2; do
        after=$((20 + RANDOM % 160))
        killed "$name" "$after" || { say "  $name had ended before $after s: not killed this time"; break; }
        say "  killed after $after s, with $(finished "$RESULTS/$name.db" | cut -d' ' -f1) trials finished"
    done
    poolwright lab run "$name" --scale "$SCALE" --results "$RESULTS/$name.db" || return 1
    say "  finished and different trials: $(finished "$RESULTS/$name.db"); wanted: $(wanted "$name"); mounts left: $(left_behind)"
    [ "$(finished "$RESULTS/$name.db")" = "$(wanted "$name") $(wanted "$name")" ] && [ "$(left_behind)" = 0 ]
}

check_agree() {
    local name=$1 first=$RESULTS/$1.db second=$RESULTS/$1-second.db
    rm -f "$second"
    # A run that is there and whole is not run again; one that is not is begun or finished.
    poolwright lab run "$name" --scale "$SCALE" --results "$first" || return 1
    poolwright lab run "$name" --scale "$SCALE" --results "$second" || return 1
    poolwright lab report "$name" --results "$first" --against "$second" -o "$RESULTS/$name.html"
    poolwright lab report "$name" --results "$first" --against "$second" --json \
        | python3 -c 'import json, sys
share = json.load(sys.stdin)["against"]["share"] or 0
print("  %.1f %% of the cells agree" % (100 * share))
sys.exit(share < 0.9)'
}

check() { "check_$WHAT" "$1" || FAILED+=("$1"); }

main() {
    local name
    parse_arguments "$@"
    cd "$POOLWRIGHT_ROOT"
    mkdir -p "$RESULTS"
    RANDOM=${CHECK_SEED:-1}
    say "Seed of the kills: ${CHECK_SEED:-1}"
    if [ ${#CAMPAIGNS[@]} -eq 0 ]; then
        mapfile -t CAMPAIGNS < <(poolwright lab list --json | python3 -c 'import json, sys
for campaign in json.load(sys.stdin): print(campaign["name"])')
    fi
    for name in "${CAMPAIGNS[@]}"; do
        step "$WHAT: $name" check "$name"
    done
    [ ${#FAILED[@]} -eq 0 ] || die 1 "not as it should be: ${FAILED[*]}"
}

main "$@"
