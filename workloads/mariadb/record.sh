#!/usr/bin/env bash
# Records a private MariaDB under load: starts it, fills it, runs the load, records its data, and stops it.
#
# usage: record.sh DIR -o FILE [--scale 1] [--for 20]
#
# DIR is the directory of the server as in server.sh, --scale that of fill.sh, and --for the number of seconds that
# are recorded into FILE. The server is stopped at the end, so that the files stay as they were recorded. Requires
# root.
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
. "$HERE/../../scripts/lib.sh"

PROGRAM=$POOLWRIGHT_ROOT/target/release/poolwright
# Seconds of load before and after the recording: the recorder needs a moment to start.
BEFORE=3 AFTER=5
SCALE=1
TIME=20
FILE=

case ${1:-} in
    -h | --help) usage_from "$0"; exit 0 ;;
    '' | -*) die 2 "no directory of the server given; see --help" ;;
esac
DIR=$(realpath -m -- "$1")
shift
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || die 2 "'$1' needs a value; see --help"
    case $1 in
        -o) FILE=$2 ;;
        --scale) SCALE=$2 ;;
        --for) TIME=$2 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    shift 2
done
[ -n "$FILE" ] || die 2 "no file for the recording given with -o; see --help"
[ "$(id -u)" -eq 0 ] || die 1 "recording requires root"

clean_up() { "$HERE/server.sh" stop "$DIR" >/dev/null 2>&1 || true; }
trap clean_up EXIT

"$HERE/server.sh" start "$DIR"
"$HERE/fill.sh" "$DIR" --scale "$SCALE"
say "Record $TIME s under load"
"$HERE/load.sh" "$DIR" --time $((BEFORE + TIME + AFTER)) >"$DIR/load.log" 2>&1 &
LOAD=$!
sleep $BEFORE
"$PROGRAM" record --force --dir "$DIR/data" --for "${TIME}s" -o "$FILE"
wait "$LOAD"
"$HERE/server.sh" stop "$DIR"
