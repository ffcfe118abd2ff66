#!/usr/bin/env bash
# Tests the lab's campaigns (`make check-lab`).
#
# usage: scripts/lab/check.sh resume|agree [--scale SCALE] [CAMPAIGN...]
#
#   resume   kills a campaign twice with SIGKILL, at random times, and resumes it until it ends. Each trial must be in the results exactly
#            once, and no mount may be left
#   agree    runs a campaign twice with the same seed. At least 90 % of the cells must agree within the intervals of the two runs, and at
#            least 98 % of all verdicts that both runs decide. The result of `resume` serves as the first run
#
# Without CAMPAIGN, all of them. The trials need an otherwise idle machine. Results are in lab-results/check/. The environment variable
# CHECK_SEED is the seed of the times of the kills (1).
#
# Exit status: 0 passed, 1 failed, 2 wrong usage, 130 interrupted.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

RESULTS=$POOLWRIGHT_ROOT/lab-results/check
SCALE=small
CAMPAIGNS=()
FAILED=()
REPORTS=()
RUNNING=

poolwright() { "${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright" "$@"; }

parse_arguments() {
    case ${1:-} in
        resume | agree) WHAT=$1 ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "the first argument must be resume or agree; see --help" ;;
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

# killed NAME SECONDS: starts a run and kills it after SECONDS. False if it ended before.
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

# wanted NAME: the number of trials of the campaign. finished DB: the number of finished trials, and of different ones.
wanted() {
    poolwright lab list --json | python3 -c 'import json, sys
print(next(c["trials"] for c in json.load(sys.stdin) if c["name"] == sys.argv[1]))' "$1"
}
finished() {
    python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(*db.execute("select count(*), count(distinct study || levels || block) from lab_trial where failed is null").fetchone())' "$1"
}

# The number of mounts left by killed runs. The lab unmounts them at its next start.
left_behind() { grep -c ' fuse\.poolwright .*lab' /proc/mounts || true; }

check_resume() {
    local name=$1 after
    rm -f "$RESULTS/$name.db" "$RESULTS/$name.log"
    for _ in 1 2; do
        after=$((20 + RANDOM % 160))
        killed "$name" "$after" || { say "  $name ended before $after s and was not killed"; break; }
        say "  killed after $after s, with $(finished "$RESULTS/$name.db" | cut -d' ' -f1) trials finished"
    done
    poolwright lab run "$name" --scale "$SCALE" --results "$RESULTS/$name.db" || return 1
    say "  finished trials and different ones: $(finished "$RESULTS/$name.db"); planned: $(wanted "$name"); mounts left: $(left_behind)"
    local all different
    read -r all different < <(finished "$RESULTS/$name.db")
    # Undecided claims add blocks to the planned ones.
    [ "$all" = "$different" ] && [ "$all" -ge "$(wanted "$name")" ] && [ "$(left_behind)" = 0 ]
}

check_agree() {
    local name=$1 first=$RESULTS/$1.db second=$RESULTS/$1-second.db
    rm -f "$second"
    # A complete run is not repeated; an incomplete one is started or resumed.
    poolwright lab run "$name" --scale "$SCALE" --results "$first" || return 1
    poolwright lab run "$name" --scale "$SCALE" --results "$second" || return 1
    poolwright lab report "$name" --results "$first" --against "$second" -o "$RESULTS/$name.html" || return 1
    poolwright lab report "$name" --results "$first" --json >"$RESULTS/$name.json" || return 1
    poolwright lab report "$name" --results "$second" --json >"$RESULTS/$name-second.json" || return 1
    REPORTS+=("$RESULTS/$name.json" "$RESULTS/$name-second.json")
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
    [ ${#REPORTS[@]} -eq 0 ] || python3 scripts/lab/verdicts.py "${REPORTS[@]}" || FAILED+=(verdicts)
    [ ${#FAILED[@]} -eq 0 ] || die 1 "$WHAT failed for: ${FAILED[*]}"
}

main "$@"
