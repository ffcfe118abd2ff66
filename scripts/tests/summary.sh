#!/usr/bin/env bash
# Tests the summary of the benches: it keeps figures, and reports missed bars, malformed lines and benches without figures.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
SUMMARY=$POOLWRIGHT_ROOT/scripts/bench/summary.py

# log NAME STATUS LINE
log() { printf 'some text\n%s\n' "$3" >"$SCRATCH/$1.log" && echo "$2" >"$SCRATCH/$1.status"; }

# expect STATUS PATTERN WHAT
expect() {
    local status=0
    BENCH_SMOKE=0 python3 "$SUMMARY" "$SCRATCH" >"$SCRATCH/out" 2>&1 || status=$?
    { [ $status = "$1" ] && grep -q -- "$2" "$SCRATCH/out"; } || die 1 "$3: status $status, and printed: $(cat "$SCRATCH/out")"
}

log 10-good 0 'BENCH {"name":"a/speed","value":95,"unit":"MiB/s","reference":100,"ratio":0.95,"bar":">= 0.90","pass":true}'
log 11-skip 0 'BENCH-SKIP no permission to load BPF'
expect 0 '1 figures, 0 below their bar, 1 benches skipped, 0 failed' "a good figure"
python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); assert s["results"][0]["value"] == 95 and s["skipped"][0]["bench"] == "11-skip", s' \
    "$SCRATCH/latest.json"

log 20-bad 0 'BENCH {"name":"b","value":1,"unit":"","bar":"< 1","pass":false}'
expect 1 'MISSED' "a missed bar"
log 20-bad 0 'BENCH {"name":"b","value":"1","unit":""}'
expect 1 "malformed figure: 'value'" "a malformed figure"
log 20-bad 0 'no figure here'
expect 1 'printed no figure' "a bench without figures"
log 20-bad 7 'BENCH {"name":"b","value":1,"unit":""}'
expect 1 'FAILED: 20-bad: 7' "a bench that failed"
say "bench summary: ok"
