#!/usr/bin/env bash
# LMDB with a writable shared mapping (MDB_WRITEMAP) and several processes; mdb_stat and mdb_copy read all of it.
#
# usage: see lib.sh in this directory
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../../lib.sh"
# shellcheck source=scripts/mount/databases/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

LOAD=$POOLWRIGHT_ROOT/workloads/lmdb/load.py
ENVIRONMENT=$MNT/lmdb

[ "$VERB" = check ] || { mkdir "$ENVIRONMENT" && "$PYTHON" "$LOAD" fill "$ENVIRONMENT" --seconds "$LOAD_SECONDS"; }
same content "$PYTHON" "$LOAD" check "$ENVIRONMENT"
same statistics mdb_stat -a "$ENVIRONMENT"
mdb_stat -e -f "$ENVIRONMENT"
# A compacting copy reads every page. The copy, on the mount too, must have the same contents.
rm -rf "$MNT/copy" && mkdir "$MNT/copy"
mdb_copy -c "$ENVIRONMENT" "$MNT/copy"
same content "$PYTHON" "$LOAD" check "$MNT/copy"
