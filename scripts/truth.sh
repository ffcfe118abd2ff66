#!/usr/bin/env bash
# Compares predictions of `replay` with a database on a kernel's OpenZFS (scripts/truth/guest.sh), and publishes the figures
# (scripts/truth/publish.py).
#
# usage: scripts/truth.sh --help
#
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
    --publish) shift; PYTHONDONTWRITEBYTECODE=1 exec python3 "$POOLWRIGHT_ROOT/scripts/truth/publish.py" "$@" ;;
    *) exec "$POOLWRIGHT_ROOT/scripts/truth/guest.sh" "$@" ;;
esac
