#!/usr/bin/env bash
# Makes the README's picture, docs/images/tune.svg, from a real run of the tutorial's commands.
#
# usage: scripts/docs/tune-picture.sh
#
# Requires root (for recording), sqlite3 and a built program. Makes the database of docs/tutorial.md in /var/tmp/shop, records it
# under load, runs `poolwright tune` in a terminal of 100 columns, and writes its output with colours to docs/images/tune.txt. Takes four
# minutes; other work on the machine widens the intervals. If the run recommends keeping today's settings, both files stay unchanged.
#
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

DATABASE=/var/tmp/shop
RECORD="poolwright record --dir $DATABASE --for 15s -o shop.parquet"
TUNE="poolwright tune $DATABASE --trace shop.parquet --device nvme --arc 64M"

case ${1:-} in
    '') ;;
    -h | --help) usage_from "$0"; exit 0 ;;
    *) die 2 "unknown argument '$1'; see --help" ;;
esac
[ ! -e $DATABASE ] || die 1 "$DATABASE exists; remove it first"
PATH=$POOLWRIGHT_ROOT/target/release:$PATH
scratch=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-picture.XXXXXX")
load=
clean_up() {
    if [ -n "$load" ]; then end_group "$load"; fi
    rm -rf -- "$scratch" "$DATABASE"
}
trap clean_up EXIT
cd "$scratch"

mkdir "$DATABASE"
sqlite3 "$DATABASE/shop.db" <"$POOLWRIGHT_ROOT/docs/tutorial/shop.sql"
setsid sh -c "while '$POOLWRIGHT_ROOT/docs/tutorial/load.sh'; do :; done" >load.log 2>&1 &
load=$!
$RECORD 2>&1 | tee record.txt
end_group "$load"
load=
script -qec "stty cols 100 rows 50; $TUNE" typescript || die 1 "the run failed (see above)"

# The final output of the commands, without progress lines.
{
    printf '# %s\n' "$RECORD"
    cat record.txt
    printf '# %s\n' "$TUNE"
    tr -d '\r' <typescript | sed -e '/^Script /d' -e 's/.*\x1b\[2K//'
} | sed -e '/^$/d' >tune.txt
grep -q Change tune.txt || die 1 "this run recommends keeping today's settings; the picture is unchanged"
cp -- tune.txt "$POOLWRIGHT_ROOT/docs/images/tune.txt"
"$POOLWRIGHT_ROOT/scripts/docs/terminal-svg.py" --title poolwright --columns 100 tune.txt "$POOLWRIGHT_ROOT/docs/images/tune.svg"
say "Made docs/images/tune.svg from docs/images/tune.txt."
