#!/usr/bin/env bash
# Runs the commands that work as root in a database's directories while the database's user renames, links and exchanges everything in
# them, and checks that nothing outside was read or changed (`make test-hostile`).
#
# usage: scripts/test-hostile.sh [--seconds N] [--seed N] [--no-build]
#
#   --seconds N   how long (3600)
#   --seed N      the seed of the attacks; a new one by default
#   --no-build    uses the existing program of the tests (target/test)
#
# Needs root and /dev/fuse; without them, reports that it was skipped, and succeeds.
#
# Exit status: 0 no violation found, 1 a violation found, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

SECONDS_WANTED=3600
SEED=$RANDOM
BUILD=yes

while [ $# -gt 0 ]; do
    case $1 in
        --seconds) SECONDS_WANTED=${2:-}; shift ;;
        --seed) SEED=${2:-}; shift ;;
        --no-build) BUILD=no ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    shift
done
case $SECONDS_WANTED$SEED in *[!0-9]* | '') die 2 "--seconds and --seed take numbers" ;; esac

if [ "$(id -u)" -ne 0 ] || [ ! -w /dev/fuse ]; then
    say "skipped: the commands on hostile directories need root and /dev/fuse"
    exit 0
fi
cd "$POOLWRIGHT_ROOT"
build_for_tests
[ $BUILD = no ] || step "Build" cargo build --release --locked -p poolwright
# The last command may take its own limit, and the pool has to be exported.
limited $((SECONDS_WANTED + 600)) python3 scripts/hostile/commands.py "$CARGO_TARGET_DIR/release/poolwright" "$SECONDS_WANTED" "$SEED"
