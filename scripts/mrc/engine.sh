#!/usr/bin/env bash
# Compares the openzfs model of `poolwright mrc` with the engine. Replays each trace on pools of three recordsizes, compressed and
# uncompressed, in ARCs of six sizes, and prints the hit ratio of the engine and the error of the model.
#
# usage: scripts/mrc/engine.sh [--requests 200000] [--repeat 1] [--prefetch] [TRACE…]
#
# A TRACE is a recording of `poolwright record` (scripts/mrc/recordings.sh makes two; only data files are used), a .lis file, OLTP or
# P3 (traces of the ARC paper, from ../shared/data or $POOLWRIGHT_SHARED/data), scans or updates (generated: point reads with scans
# between them, without and with updates). Default: the last four, if they exist. TRACE@N uses the first N accesses instead of
# --requests; P3 is P3@400000, because it has hardly any reuse in fewer accesses.
# --repeat sets the number of replays of each size; the medians count, and the range of the runs is shown. --prefetch enables
# prefetch in the engine and the model, only with records of 16K. Pools are in /dev/shm if their largest size (twice the data
# of the trace, plus 1G) is at most a third of the available memory, otherwise in ${TMPDIR:-/tmp}.
# docs/arc.md explains the comparison and has results.
# Exit status: 0 no error exceeds 1 percentage point, 1 one does, or nothing was compared, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SHARED=${POOLWRIGHT_SHARED:-$POOLWRIGHT_ROOT/../shared}
OPTIONS=(--requests 200000)
TRACES=()

# Prints the path of a page trace of the ARC paper, with an optional number of accesses.
paper() {
    local file=$SHARED/data/arc-${1%@*}.lis.zst
    [ -f "$file" ] || return 1
    case $1 in
        P3) printf '%s@400000\n' "$file" ;;
        *) printf '%s%s\n' "$file" "${1#"${1%@*}"}" ;;
    esac
}

named() {
    case $1 in
        scans | updates | scans@* | updates@*) printf '%s\n' "$1" ;;
        OLTP | P3 | OLTP@* | P3@*) paper "$1" || die 1 "${1%@*} is not in $SHARED/data" ;;
        *) realpath -- "$1" ;;
    esac
}

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage_from "$0"; exit 0 ;;
        --requests | --repeat) [ $# -ge 2 ] || die 2 "$1 needs a number; see --help"; OPTIONS+=("$1" "$2"); shift ;;
        --prefetch) OPTIONS+=(--prefetch all --recordsize 16) ;;
        -*) die 2 "unknown argument '$1'; see --help" ;;
        *) trace=$(named "$1"); TRACES+=("$trace") ;;
    esac
    shift
done

if [ ${#TRACES[@]} -eq 0 ]; then
    TRACES=(scans updates)
    for name in OLTP P3; do
        if trace=$(paper "$name"); then
            TRACES+=("$trace")
        else
            say "skipped: $name: not in $SHARED/data"
        fi
    done
fi
cd "$POOLWRIGHT_ROOT"
cargo build --release --quiet -p poolwright-devtools --bin mrc-engine
began=$SECONDS
status=0
"${CARGO_TARGET_DIR:-target}/release/mrc-engine" "${OPTIONS[@]}" "${TRACES[@]}" || status=$?
say "took $((SECONDS - began)) s"
exit "$status"
