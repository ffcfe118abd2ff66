#!/usr/bin/env bash
# Many files in one directory, through the mount: what creating, listing, looking at and deleting one of them costs, with
# MANY_FILES of them beside a tenth of that.
#
# usage: scripts/bench/80-many-files.sh
#
# MANY_FILES (1000000), MANY_ROUNDS (3), the smaller and the larger in turns; caching is the mount's default. Pools are in
# BENCH_SCRATCH, or in TMPDIR, on a disk with 8G free. MANY_ARC (8192) MiB of ARC is what a mount takes by itself of 24G
# with some in use; with 1G a cold listing of a million costs twice as much, as their nodes' blocks do not stay unpacked.
# "Cold" is after an export and an import: the kernel knows no name then, and every look-up reaches the engine. A million
# files take 1.2G of the kernel's memory; where it has less to spare it forgets names, and those are looked up again.
# Exit status: 0 done, or skipped because nothing can be mounted; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

exec python3 "$POOLWRIGHT_ROOT/scripts/bench/many_files.py"
