#!/usr/bin/env bash
# Measures a directory with many files on the mount: the cost per file of creating, listing, stat and deleting, with MANY_FILES files and
# with a tenth of them.
#
# usage: scripts/bench/80-many-files.sh
#
# Environment (default in parentheses):
#   MANY_FILES   number of files (1000000)
#   MANY_ROUNDS  rounds, each with the smaller and the larger number (3)
#   MANY_ARC     ARC limit in MiB (8192: what a mount chooses on a host with 24G). With 1G, a cold listing of a million files costs twice as
#                much, because the blocks of their nodes do not stay decompressed in the cache
#
# The pools are in BENCH_SCRATCH, or in TMPDIR, and need 8G of free space. Caching is the mount's default. "Cold" means after an export and
# an import: the kernel has no names cached, and each lookup reaches the engine. A million files take 1.2G of kernel memory; with less, the
# kernel forgets names and looks them up again.
#
# Exit status: 0 done, or skipped because FUSE mounts are not possible; 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/../lib.sh"

exec python3 "$POOLWRIGHT_ROOT/scripts/bench/many_files.py"
