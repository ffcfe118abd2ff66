#!/usr/bin/env bash
# Runs the campaigns with real databases and leaves their reports: what `make lab` does.
#
# usage: scripts/lab.sh [--no-install] [--scale SCALE] [--seed N] [--scratch DIR] [CAMPAIGN...]
#
#   --scale     small (the default) or full: a study as large as the original's
#   --scratch   where pools and logs are (default: TMPDIR or /tmp)
#   CAMPAIGN    only these; `poolwright lab list` lists all
#
# Results (NAME.db) and reports (NAME.html, NAME.md, NAME.csv) are in lab-results/. A second run goes on where the first
# one ended; what is finished is not run again.
#
# Exit status: 0 done, 1 a trial or a campaign failed, 2 wrong usage, 130 interrupted.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

RESULTS=$POOLWRIGHT_ROOT/lab-results
INSTALL=yes
RUN_OPTIONS=()
FAILED=()
CAMPAIGNS=()

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --no-install) INSTALL=no ;;
            --scale | --seed | --scratch) RUN_OPTIONS+=("$1" "${2:?$1 needs a value}"); shift ;;
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

# Ctrl-C reaches the program, which clears up and ends with 130; then the others are not begun. A failure is kept in FAILED.
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
        && poolwright lab report "$1" --results "$to.db" --csv >"$to.csv"
}

poolwright() { "${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright" "$@"; }

main() {
    local name
    parse_arguments "$@"
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
    [ ${#FAILED[@]} -eq 0 ] || die 1 "not all of these came to their end (see above): ${FAILED[*]}"
}

main "$@"
