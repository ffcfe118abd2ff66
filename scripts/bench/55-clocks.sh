#!/usr/bin/env bash
# Compares the virtual clock of `poolwright replay` with the real one: recordings of five databases, four settings, two devices.
#
# usage: scripts/bench/55-clocks.sh
#
# Prepares and records the workloads of campaigns/truth.toml, half of their size, which takes a few minutes; the databases must be installed
# (`needs` there). Figures of the real clock are those of this machine: other programs must not run. Takes half an hour.
#
# CLOCKS_WORKLOADS, CLOCKS_DEVICES, CLOCKS_SECONDS (of a recording), CLOCKS_ROUNDS and CLOCKS_SIZE (of a database) change the defaults.
# BENCH_SMOKE=1 compares one small database on one device.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

SCRATCH=${BENCH_SCRATCH:-$(mktemp -d "${TMPDIR:-/tmp}/poolwright-bench.XXXXXX")}
[ -n "${BENCH_SCRATCH:-}" ] || trap 'rm -rf -- "$SCRATCH"' EXIT
if [ "${BENCH_SMOKE:-0}" = 1 ]; then
    export CLOCKS_WORKLOADS=sqlite CLOCKS_DEVICES=nvme CLOCKS_SECONDS=3 CLOCKS_SIZE=0.1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "BENCH-SKIP recording requires root"
    exit 0
fi
PYTHONDONTWRITEBYTECODE=1 python3 "$POOLWRIGHT_ROOT/scripts/truth/clocks.py" "$SCRATCH"
