#!/usr/bin/env bash
# The openzfs model of `poolwright mrc` against the engine: each trace replayed on pools of three recordsizes, compressed and
# not, in ARCs of six sizes; the hit ratio of both, and how far the model is off.
#
# usage: scripts/mrc/engine.sh [--requests 200000] [--repeat 1] [--prefetch] [TRACE…]
#
# A TRACE is a recording of `poolwright record` (scripts/mrc/recordings.sh makes two; their data files count), a .lis file, OLTP
# or P3 (those of the ARC paper, from ../shared/data or $POOLWRIGHT_SHARED/data), scans or updates (generated: point reads with
# scans between them, without and with updates). Without any: the last four, where they are. TRACE@N takes its first N accesses
# in place of --requests; P3 is P3@400000, as hardly anything is asked for twice in less.
# --repeat replays each size so often: what counts are the medians, and how far the runs are apart is shown. --prefetch lets
# the engine and the model read ahead, with records of 16K only. Pools are in /dev/shm while their largest size (twice what
# the trace asks for, and 1G) is a third of the memory available, else in ${TMPDIR:-/tmp}.
# docs/arc.md says what is compared and what came of it.
# Exit status: 0 none is off by more than 1 percentage point, 1 one is, or nothing was compared, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SHARED=${POOLWRIGHT_SHARED:-$POOLWRIGHT_ROOT/../shared}
OPTIONS=(--requests 200000)
TRACES=()

# A page trace of the ARC paper, with or without the number of its accesses.
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
            say "Left out: $name, as it is not in $SHARED/data"
        fi
    done
fi
cd "$POOLWRIGHT_ROOT"
cargo build --release --quiet -p poolwright-mrc --example engine
began=$SECONDS
status=0
"${CARGO_TARGET_DIR:-target}/release/examples/engine" "${OPTIONS[@]}" "${TRACES[@]}" || status=$?
say "in $((SECONDS - began)) s"
exit "$status"
