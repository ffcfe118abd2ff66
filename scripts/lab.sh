#!/usr/bin/env bash
# Runs the campaigns with real databases and writes their reports (`make lab`).
#
# usage: scripts/lab.sh [--no-install] [--scale SCALE] [--seed N] [--scratch DIR] [--for TIME] [CAMPAIGN...]
#
#   --scale     small (the default) or full (the size of the original study)
#   --for       time for all campaigns together, as 50m or 6h (default: 50m, or none with --scale); later runs continue
#   --scratch   directory for pools and logs (default: TMPDIR or /tmp)
#   CAMPAIGN    runs only these (default: those of SHARES below); `poolwright lab list` lists all
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
# The campaigns' shares of the time, in minutes of 50. Those with the smallest run first; each leaves the rest of its share to the next.
declare -A SHARES=([snapshots]=1 [kv-engines]=5 [timeseries]=8 [ldap-import]=9 [innodb]=12 [orientdb-import]=15)
RUN_OPTIONS=()
FAILED=()
CAMPAIGNS=()

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --no-install) INSTALL=no ;;
            --for)
                LIMIT=$(seconds "${2:-}") || die 2 "invalid time '${2:-}': write it as 50m or 6h"
                shift
                ;;
            --scale) LIMIT=${LIMIT:-none}; RUN_OPTIONS+=("$1" "${2:?$1 needs a value}"); shift ;;
            --seed | --scratch) RUN_OPTIONS+=("$1" "${2:?$1 needs a value}"); shift ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *) CAMPAIGNS+=("$1") ;;
        esac
        shift
    done
}

# seconds TIME: a time such as 90s, 50m or 6h in seconds.
seconds() {
    [[ $1 =~ ^([1-9][0-9]*)([smh])$ ]] || return 1
    case ${BASH_REMATCH[2]} in
        s) echo "${BASH_REMATCH[1]}" ;;
        m) echo $((BASH_REMATCH[1] * 60)) ;;
        h) echo $((BASH_REMATCH[1] * 3600)) ;;
    esac
}

prepare() {
    [ $INSTALL = no ] || step "Install what the campaigns use" "$POOLWRIGHT_ROOT/scripts/install.sh" --for lab
    step "Build" cargo build --release --locked -p poolwright
    [ $INSTALL = no ] || step "Fetch what no package has" "$POOLWRIGHT_ROOT/scripts/lab/fetch.sh"
}

# campaign NAME LEFT: LEFT is the sum of the shares that are not used yet. On Ctrl-C the program cleans up and exits with 130; the script then starts
# no other campaign. FAILED lists failed campaigns.
campaign() {
    local name=$1 status=0 options=(${RUN_OPTIONS[@]+"${RUN_OPTIONS[@]}"}) time
    if [ "$LIMIT" != none ]; then
        time=$(((END - SECONDS) * $(share "$name") / $2))
        [ $time -gt 0 ] || { say "No time is left for $name."; return; }
        options+=(--for "${time}s")
    fi
    poolwright lab run "$name" --results "$RESULTS/$name.db" ${options[@]+"${options[@]}"} || status=$?
    [ $status -ne 130 ] || exit 130
    [ ! -e "$RESULTS/$name.db" ] || report "$name" || status=1
    [ $status -eq 0 ] || FAILED+=("$name")
}

# share NAME: the share of a campaign, that of the longest one for an unknown name.
share() { echo "${SHARES[$1]:-15}"; }

# The names of the campaigns with a share, the smallest first.
campaigns() {
    local name
    for name in "${!SHARES[@]}"; do echo "${SHARES[$name]} $name"; done | sort -n | cut -d " " -f 2
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
    local name left=0
    parse_arguments "$@"
    LIMIT=${LIMIT:-3000}
    cd "$POOLWRIGHT_ROOT"
    prepare
    mkdir -p "$RESULTS"
    [ ${#CAMPAIGNS[@]} -gt 0 ] || mapfile -t CAMPAIGNS < <(campaigns)
    for name in "${CAMPAIGNS[@]}"; do left=$((left + $(share "$name"))); done
    [ "$LIMIT" = none ] || END=$((SECONDS + LIMIT))
    for name in "${CAMPAIGNS[@]}"; do
        step "$name" campaign "$name" "$left"
        left=$((left - $(share "$name")))
    done
    say ""
    say "Results and reports are in $RESULTS."
    [ ${#FAILED[@]} -eq 0 ] || die 1 "some campaigns failed (see above): ${FAILED[*]}"
}

main "$@"
