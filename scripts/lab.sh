#!/usr/bin/env bash
# Runs the campaigns with real databases and writes their reports (`make lab`).
#
# usage: scripts/lab.sh [--no-install] [--scale SCALE] [--seed N] [--scratch DIR] [--for TIME] [CAMPAIGN...]
#
#   --scale     small (the default) or full (the size of the original study)
#   --for       time for each campaign (default: 10m, or none with --scale); later runs continue
#   --scratch   directory for pools and logs (default: TMPDIR or /tmp)
#   CAMPAIGN    runs only these; `poolwright lab list` lists all
#
# Writes results (NAME.db) and reports (NAME.html, NAME.md, NAME.csv, NAME.json) to lab-results/. A second run resumes the first and does not
# repeat finished trials.
#
# Exit status: 0 done, 1 a trial or a campaign failed, 2 wrong usage, 130 interrupted.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

RESULTS=$POOLWRIGHT_ROOT/lab-results
INSTALL=yes
LIMIT=''
RUN_OPTIONS=()
FAILED=()
CAMPAIGNS=()

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --no-install) INSTALL=no ;;
            --for) LIMIT=${2:?$1 needs a value}; shift ;;
            --scale) LIMIT=${LIMIT:-none}; RUN_OPTIONS+=("$1" "${2:?$1 needs a value}"); shift ;;
            --seed | --scratch) RUN_OPTIONS+=("$1" "${2:?$1 needs a value}"); shift ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *) CAMPAIGNS+=("$1") ;;
        esac
        shift
    done
}

prepare() {
    [ $INSTALL = no ] || step "Install what the campaigns use" "$POOLWRIGHT_ROOT/scripts/install.sh" --for lab
    step "Build" cargo build --release --locked -p poolwright
    [ $INSTALL = no ] || step "Fetch what no package has" "$POOLWRIGHT_ROOT/scripts/lab/fetch.sh"
}

# On Ctrl-C the program cleans up and exits with 130; the script then starts no other campaign. FAILED lists failed campaigns.
campaign() {
    local name=$1 status=0
    poolwright lab run "$name" --results "$RESULTS/$name.db" ${RUN_OPTIONS[@]+"${RUN_OPTIONS[@]}"} || status=$?
    [ $status -ne 130 ] || exit 130
    [ ! -e "$RESULTS/$name.db" ] || report "$name" || status=1
    [ $status -eq 0 ] || FAILED+=("$name")
}

report() {
    local to=$RESULTS/$1
    poolwright lab report "$1" --results "$to.db" -o "$to.html" \
        && poolwright lab report "$1" --results "$to.db" --markdown >"$to.md" \
        && poolwright lab report "$1" --results "$to.db" --json >"$to.json" \
        && poolwright lab report "$1" --results "$to.db" --csv >"$to.csv"
}

poolwright() { "${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright" "$@"; }

main() {
    local name
    parse_arguments "$@"
    LIMIT=${LIMIT:-10m}
    [ "$LIMIT" = none ] || RUN_OPTIONS+=(--for "$LIMIT")
    cd "$POOLWRIGHT_ROOT"
    prepare
    mkdir -p "$RESULTS"
    if [ ${#CAMPAIGNS[@]} -eq 0 ]; then
        mapfile -t CAMPAIGNS < <(poolwright lab list --json | python3 -c 'import json, sys
for campaign in json.load(sys.stdin): print(campaign["name"])')
    fi
    for name in "${CAMPAIGNS[@]}"; do
        step "$name" campaign "$name"
    done
    say ""
    say "Results and reports are in $RESULTS."
    [ ${#FAILED[@]} -eq 0 ] || die 1 "some campaigns failed (see above): ${FAILED[*]}"
}

main "$@"
