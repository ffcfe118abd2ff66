# shellcheck shell=bash
# The part `truth` of scripts/test-kernel.sh, which sources this file: a comparison of predictions with the kernel (scripts/truth.sh) of a small
# database. Its runs are too short for figures, so only the structure of the results is checked.

# truth_structure DIR SETTINGS: a line that starts with "pass" or "fail" for each check.
truth_structure() {
    PYTHONPATH=$POOLWRIGHT_ROOT/scripts/truth PYTHONDONTWRITEBYTECODE=1 python3 - "$@" <<'PYTHON'
import sys
from pathlib import Path

import guest
import publish

directory, settings = map(Path, sys.argv[1:])
names = [line.split()[0] for line in settings.read_text().splitlines()]
today = names[0]
runs, truth, ours = guest.load(directory, settings)


def check(text, holds):
    print(f"{'pass' if holds else 'fail'}\ttruth: {text}")


check(f"each setting has one run and a prediction: {', '.join(names)}", list(truth) == list(ours) == names
      and all(len(runs[name]) == 1 for name in names))
for name in names:
    for side, found in (("measured", truth[name]), ("predicted", ours[name])):
        check(f"{name}: {side} rate, CPU time, bytes written and space", all(found[key] > 0 for key in ("rate", "cpu_ms", "written", "space")))
check("the recording has transactions", guest.recorded_rate(directory / "recorded") > 0)
check("today's setting differs from itself in nothing", all(publish.objective(side[today], side[today]) == 1 for side in (truth, ours)))
entry = publish.entry("sqlite", runs, truth, ours)
check("the track record has the other setting, which one run leaves unknown",
      [(change["setting"], change["known"]) for change in entry["changes"]] == [(name, False) for name in names[1:]])
rows = [line.split("|")[1:-1] for line in (directory / "guest.md").read_text().splitlines() if line.startswith("|")]
check("both tables have a row for each setting", [row[0].strip() for row in rows if row[0].strip() in names] == 2 * names)
compared = {row[0].strip(): [cell.strip() for cell in row[1:4]] for row in rows}
check("the rates of today's setting are absolute, those of the other are changes",
      [cell[-2:] for cell in compared[today]] == ["/s", "/s", ""] and all(cell[0] in "+-" for cell in compared[names[1]]))
PYTHON
}

part_truth() {
    local dir=$WORK/truth settings=$WORK/truth.settings
    printf '%s\n' '128K-lz4 recordsize=128K compression=lz4' '16K-zstd-3 recordsize=16K compression=zstd-3' >"$settings"
    if limited 1800 "$POOLWRIGHT_ROOT/scripts/truth.sh" --workload sqlite --size 0.02 --rounds 1 --seconds 3 --warm 2 --record 4 \
        --settings "$settings" --out "$dir" >"$WORK/truth.said" 2>&1; then
        truth_structure "$dir" "$settings" >>"$WORK/truth.said" || fail "the results of truth.sh cannot be read"
    else
        fail "truth.sh ended with status $?"
    fi
    report_table "$WORK/truth.said"
}
