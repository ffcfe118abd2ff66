#!/usr/bin/env bash
# Runs the benches, each of which measures a figure and its reference in one run (`make bench`).
#
# usage: scripts/bench.sh [--smoke] [--within SECONDS] [--no-install] [NAME...]
#
#   --smoke   short runs that only show that each bench works
#   --within  starts no more benches after this time; each commit starts with a different bench, so that all are run in turn
#   NAME      runs only the benches whose file name contains NAME
#
# Runs scripts/bench/*.sh in order, prints all figures as one table, and writes them to bench-results/latest.json with a
# description of the machine. scripts/bench/README.md describes how a bench reports its figures.
#
# Exit status: 0 all figures meet their bars, 1 a figure misses its bar or a bench failed, 2 wrong usage, 130 interrupted.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

RESULTS=$POOLWRIGHT_ROOT/bench-results
BENCH_SMOKE=0
WITHIN=
INSTALL=yes
NAMES=()
GROUP=
# Seconds that one bench may take.
BENCH_LIMIT=14400

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --smoke) BENCH_SMOKE=1 ;;
            --no-install) INSTALL=no ;;
            --within) WITHIN=${2:?}; shift ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *) NAMES+=("$1") ;;
        esac
        shift
    done
    export BENCH_SMOKE
    [ "$BENCH_SMOKE" = 0 ] || BENCH_LIMIT=900
}

chosen() {
    local name
    [ ${#NAMES[@]} -gt 0 ] || return 0
    for name in "${NAMES[@]}"; do
        case ${1##*/} in *"$name"*) return 0 ;; esac
    done
    return 1
}

clean_up() {
    local status=$?
    trap '' INT TERM HUP
    trap - EXIT ERR
    [ -z "$GROUP" ] || end_group "$GROUP"
    [ -z "${BENCH_SCRATCH:-}" ] || rm -rf -- "$BENCH_SCRATCH"
    exit "$status"
}

# Each bench has its own scratch directory and process group; the script removes and ends them afterwards.
run_bench() {
    local bench=$1 name out tee status=0
    name=$(basename "$bench" .sh)
    BENCH_SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")
    export BENCH_SCRATCH
    # tee runs outside the group, so that a process that a bench leaves cannot keep the pipe open.
    exec {out}> >(exec tee "$RESULTS/$name.log")
    tee=$!
    setsid "$POOLWRIGHT_ROOT/scripts/limit.py" --program "$BENCH_LIMIT" "$bench" </dev/null >&"$out" 2>&1 &
    GROUP=$!
    exec {out}>&-
    wait "$GROUP" || status=$?
    end_group "$GROUP"
    GROUP=
    wait "$tee" || true
    rm -rf -- "$BENCH_SCRATCH"
    BENCH_SCRATCH=
    printf '%s\n' "$status" >"$RESULTS/$name.status"
    [ "$status" -eq 0 ] || warn "$name ended with status $status; continuing with the others"
}

main() {
    parse_arguments "$@"
    [ $INSTALL = no ] || step "Install what the benches use" "$POOLWRIGHT_ROOT/scripts/install.sh" --for bench
    cd "$POOLWRIGHT_ROOT"
    step "Build" cargo build --release --workspace --all-targets
    trap clean_up EXIT
    trap 'exit 130' INT HUP
    trap 'exit 143' TERM
    mkdir -p "$RESULTS"
    rm -f "$RESULTS"/*.log "$RESULTS"/*.status
    local bench benches=() first=0 began=$SECONDS left_out=()
    for bench in scripts/bench/*.sh; do
        if [ -e "$bench" ] && chosen "$bench"; then benches+=("$bench"); fi
    done
    if [ -n "$WITHIN" ] && [ ${#benches[@]} -gt 0 ]; then
        first=$(($(git rev-list --count HEAD 2>/dev/null || echo 0) % ${#benches[@]}))
    fi
    for bench in ${benches[@]+"${benches[@]:first}" "${benches[@]:0:first}"}; do
        if [ -n "$WITHIN" ] && [ $((SECONDS - began)) -ge "$WITHIN" ]; then
            left_out+=("$(basename "$bench" .sh)")
        else
            step "$bench" run_bench "$POOLWRIGHT_ROOT/$bench"
        fi
    done
    [ ${#left_out[@]} -eq 0 ] || say "Not run, because $WITHIN s have passed: ${left_out[*]}"
    python3 scripts/bench/summary.py "$RESULTS" || exit
}

main "$@"
