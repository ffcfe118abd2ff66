#!/usr/bin/env bash
# LMDB through a writable shared mapping (MDB_WRITEMAP), several processes; mdb_stat and mdb_copy read all of it.
#
# usage: see lib.sh beside this
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
# A compacting copy walks every page; the copy must hold the same, also when it lies on the mount.
rm -rf "$MNT/copy" && mkdir "$MNT/copy"
mdb_copy -c "$ENVIRONMENT" "$MNT/copy"
same content "$PYTHON" "$LOAD" check "$MNT/copy"
