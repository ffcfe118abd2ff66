#!/usr/bin/env bash
# Runs one small workload through all steps of scripts/truth.sh: record, predict, measure, compare. The assertions do not depend on the
# speed of the machine.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

# Time limit of the run in seconds.
LIMIT=400
POOLWRIGHT=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-test.XXXXXX")
trap 'rm -rf "$SCRATCH"' EXIT

# not_run REASON: reports that the test cannot run here, and exits with status 0.
not_run() {
    say "not run: truth-run (one workload of truth.sh): $1"
    exit 0
}

[ "$(id -u)" -eq 0 ] || not_run "recording needs root"
mkdir "$SCRATCH/probe"
# The directory has no files, so recording fails in any case. If recording is not permitted, the message says so.
"$POOLWRIGHT" record --dir "$SCRATCH/probe" --for 10ms -o "$SCRATCH/probe.parquet" >"$SCRATCH/probe.log" 2>&1 || true
! grep -q 'cannot record' "$SCRATCH/probe.log" || not_run "$(grep -m 1 'cannot record' "$SCRATCH/probe.log")"
{ : <>/dev/fuse; } 2>/dev/null || not_run "cannot open /dev/fuse"

# check OPTION...: runs the workload; its output is in the file log.
check() {
    limited "$LIMIT" "$POOLWRIGHT_ROOT/scripts/truth.sh" --check sqlite --size 0.05 --record-on pool --record 3 --warm 1 \
        --out "$SCRATCH/out" --scratch "$SCRATCH" "$@" >"$SCRATCH/log" 2>&1
}

check --seconds 2 || die 1 "the run failed: $(cat "$SCRATCH/log")"
grep -q '^sqlite: work rate against 128K lz4: ' "$SCRATCH/log" || die 1 "no line for the workload: $(cat "$SCRATCH/log")"
grep -q 'do not measure the errors' "$SCRATCH/log" || die 1 "the caveat about short runs is missing"

python3 - "$SCRATCH/out/sqlite/truth.json" <<'EOF' || die 1 "the comparison is wrong (above)"
import json, sys

# Largest allowed error of a predicted change of the space, in percentage points. The database is small, and all of it is recorded; but on a
# busy machine, it grows less in the measured window than in the recording.
SPACE = 25
found = json.load(open(sys.argv[1]))
settings = {s["setting"]: s for s in found["settings"]}
assert sorted(settings) == ["128K lz4", "128K zstd-3", "1M lz4"], sorted(settings)
assert found["recording"]["recorder"]["events"] > 0 and found["recording"]["figures"]["work_done"] > 0, found["recording"]
for name, s in settings.items():
    assert s["truth"]["blocks"] == 1 and s["truth"]["median"]["rate"] > 0, (name, s["truth"])
    value = s["predicted"]["value"]
    assert all(value[metric] > 0 for metric in ("rate", "written", "space")), (name, value)
    assert abs(s["error_points"]["space"]) < SPACE, (name, s["error_points"])
today = settings[found["today"]]
assert all(abs(ratio - 1) < 1e-9 for ratio in today["predicted"]["change"].values()), today["predicted"]
assert all(abs(change["ratio"] - 1) < 1e-9 for change in today["truth"]["change"].values()), today["truth"]
assert settings["128K zstd-3"]["predicted"]["change"]["space"] < 1, settings["128K zstd-3"]["predicted"]
EOF
LINE=$(grep '^sqlite: ' "$SCRATCH/log")

# The recording and the predictions are kept. No client can work for a negative time, so every trial fails.
! check --seconds -1 || die 1 "trials that failed are no error: $(cat "$SCRATCH/log")"
grep -q '^sqlite: NOT RUN: .*no trial of 128K lz4 succeeded (128K lz4: phase load: .*); see ' "$SCRATCH/log" ||
    die 1 "the message lacks the error of the trial: $(cat "$SCRATCH/log")"
say "truth run: ok ($LINE)"
