#!/usr/bin/env bash
# Measures `poolwright serve` on a host with many pools: the time of a scrape, memory and CPU, beside zfs_exporter and the ZFS
# collector of node_exporter.
#
# usage: scripts/bench/95-serve.sh
#
# Environment (default in parentheses):
#   SERVE_POOLS      number of pools (10)
#   SERVE_DATASETS   datasets of each pool (1000)
#   SERVE_SNAPSHOTS  snapshots of each pool (10000)
#   ZFS_EXPORTER     path of zfs_exporter (built from its Go module if possible; else left out)
#   NODE_EXPORTER    path of prometheus-node-exporter (that of the installed package; else left out)
#
# The kstats and the output of zpool and zfs are made from the captures of a real kernel in crates/zfs/tests/captures. The
# programs zpool and zfs print files, so the time that the kernel needs for its answers is not part of any figure. The exporters
# run in a mount namespace that has a file /dev/zfs, which needs root.
#
# Exit status: 0 done, or skipped without root; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

if [ "$(id -u)" != 0 ] || ! unshare --mount true 2>/dev/null; then
    say "BENCH-SKIP a mount namespace needs root"
    exit 0
fi
export POOLWRIGHT=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
[ -n "${BENCH_SCRATCH:-}" ] || trap 'rm -rf -- "$SCRATCH"' EXIT
TOOLS=$POOLWRIGHT_ROOT/target/tools/bin
if [ -z "${ZFS_EXPORTER:-}" ] && command -v go >/dev/null; then
    [ -x "$TOOLS/zfs_exporter" ] || GOBIN=$TOOLS go install github.com/pdf/zfs_exporter/v2@v2.3.11 2>/dev/null \
        || say "zfs_exporter cannot be built; it is left out"
    ZFS_EXPORTER=$TOOLS/zfs_exporter
fi
export ZFS_EXPORTER=${ZFS_EXPORTER:-} NODE_EXPORTER=${NODE_EXPORTER:-$(command -v prometheus-node-exporter || true)}
cd "$SCRATCH"
python3 "$POOLWRIGHT_ROOT/scripts/bench/serve_figures.py"
