#!/usr/bin/env bash
# The openzfs model of `poolwright mrc` against the engine: each trace replayed on pools of three recordsizes, compressed and
# not, in ARCs of six sizes; the hit ratio of both, and how far the model is off.
#
# usage: scripts/mrc/engine.sh [--requests 200000] [TRACE…]
#
# Without a trace: those of the ARC paper (OLTP, P3) where they are, in ../shared/data or $POOLWRIGHT_SHARED/data, and two
# generated ones, point reads with scans between them, without and with updates. A TRACE is a recording of `poolwright record`
# or a .lis file; of a recording the data files count. Pools are in /dev/shm, as large as what the trace asks for.
# docs/arc.md says what is compared and what came of it.
# Exit status: 0 none is off by more than 1 percentage point, 1 one is, or nothing was compared, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SHARED=${POOLWRIGHT_SHARED:-$POOLWRIGHT_ROOT/../shared}
REQUESTS=200000
TRACES=()
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage_from "$0"; exit 0 ;;
        --requests) [ $# -ge 2 ] || die 2 "--requests needs a number; see --help"; REQUESTS=$2; shift ;;
        -*) die 2 "unknown argument '$1'; see --help" ;;
        *) TRACES+=("$(realpath -- "$1")") ;;
    esac
    shift
done

cd "$POOLWRIGHT_ROOT"
cargo build --release --quiet -p poolwright-mrc --example engine
ENGINE=${CARGO_TARGET_DIR:-target}/release/examples/engine
if [ ${#TRACES[@]} -eq 0 ]; then
    TRACES=(scans updates)
    for name in OLTP P3; do
        if [ -f "$SHARED/data/arc-$name.lis.zst" ]; then
            TRACES+=("$SHARED/data/arc-$name.lis.zst")
        else
            say "Left out: $name, as $SHARED/data/arc-$name.lis.zst is not there"
        fi
    done
fi
exec "$ENGINE" --requests "$REQUESTS" "${TRACES[@]}"
