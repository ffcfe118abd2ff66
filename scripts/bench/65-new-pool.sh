#!/usr/bin/env bash
# Measures how long the clients of a PostgreSQL under load wait while `apply --new-pool` moves it to another pool: with --online, which copies
# files, and with --standby, beside a restart of the server under the same load. The pools are those of the user-space engine.
#
# usage: scripts/bench/65-new-pool.sh
#
# Environment (default in parentheses):
#   SCALE  scale of pgbench, about 15 MB each (40)
#   RUNS   moves in each way (5)
# With BENCH_SMOKE=1, a scale of 2 and one move.
#
# Exit status: 0 done, or skipped without root or PostgreSQL; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

BINDIR=$(find /usr/lib/postgresql -maxdepth 3 -name pgbench -printf '%h\n' 2>/dev/null | sort -V | tail -n 1)
if [ "$(id -u)" != 0 ] || [ ! -e /dev/fuse ] || ! unshare --mount true 2>/dev/null; then
    say "BENCH-SKIP mounts and a mount namespace need root"
    exit 0
fi
if [ ! -x "$BINDIR/pg_basebackup" ] || [ ! -x "$BINDIR/postgres" ]; then
    say "BENCH-SKIP PostgreSQL with pgbench is not installed"
    exit 0
fi
export BINDIR POOLWRIGHT=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
[ -n "${BENCH_SCRATCH:-}" ] || trap 'rm -rf -- "$SCRATCH"' EXIT
cd "$SCRATCH"
python3 "$POOLWRIGHT_ROOT/scripts/bench/new_pool_figures.py" "$POOLWRIGHT_ROOT/scripts/vm/plan.py"
