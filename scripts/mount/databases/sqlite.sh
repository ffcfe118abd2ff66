#!/usr/bin/env bash
# SQLite in all journal modes, with several processes, which use its locks and the WAL's shared mapping.
#
# usage: see lib.sh in this directory
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../../lib.sh"
# shellcheck source=scripts/mount/databases/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

LOAD=$POOLWRIGHT_ROOT/workloads/sqlite/load.py

check_all() {
    local db
    for db in "$MNT"/*.db; do
        printf '%s ' "${db##*/}"
        "$PYTHON" "$LOAD" check "$db"
        [ "$(sqlite3 "$db" 'pragma integrity_check')" = ok ]
    done
}

fill() {
    local journal journals=("$VARIANT")
    local mmap=0
    [ "$VARIANT" != rollback ] || journals=(delete truncate persist)
    [ "$VARIANT" != mmap ] || { journals=(wal); mmap=268435456; }
    for journal in "${journals[@]}"; do
        "$PYTHON" "$LOAD" fill "$MNT/$journal.db" --journal "$journal" --seconds "$LOAD_SECONDS" --mmap "$mmap"
    done
}

[ "$VERB" != fill ] || fill
same content check_all
