"""Writes the figures of finished comparisons in the guest to the track record that plans show, and to docs/predictions.md
(truth.sh --publish).

usage: truth.sh --publish [--settings FILE] DIR...

DIR is the directory of a workload's results (target/vm/truth/WORKLOAD) of `truth.sh`.
"""

import argparse
import json
import math
from itertools import combinations
from pathlib import Path

import guest

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "crates" / "tune" / "track-record.json"
PAGE = ROOT / "docs" / "predictions.md"
SETTINGS = ROOT / "scripts" / "truth" / "guest-settings"
# The tables of the page are between these lines.
BEGIN, END = "<!-- begin: scripts/truth.sh --publish -->", "<!-- end -->"
FORMAT, VERSION = "poolwright-track-record", 1
# Workload → its title, and the database system as plans name it.
WORKLOADS = {"mariadb": ("MariaDB", "mariadb"), "postgresql": ("PostgreSQL", "postgresql"), "sqlite": ("SQLite", "sqlite"),
             "openldap": ("OpenLDAP", "openldap"), "etcd": ("etcd", "etcd"), "mariadb_fsync": ("MariaDB with fsync", "mariadb"),
             "postgresql_scan": ("PostgreSQL with reports", "postgresql"),
             "sqlite_rollback": ("SQLite with a rollback journal", "sqlite"), "wiredtiger": ("WiredTiger", "wiredtiger"),
             "leveldb": ("LevelDB", "leveldb"), "sqlite-volume": ("SQLite on ext4 on a volume", "volume"),
             "postgresql-volume": ("PostgreSQL on ext4 on a volume", "volume"), "files-volume": ("a file server on ext4 on a volume", "volume")}
# The default goal of `tune` (crates/tune/src/objective.rs), by the names of guest.py. More is better only for the rate.
WEIGHTS = {"rate": -0.3, "space": 0.3, "written": 0.2, "cpu_ms": 0.2}
# A setting whose rate is lower than today's by more than this factor is not recommended.
SLOWEST = 0.95
# A setting is known if its runs, and today's, differ by at most this factor.
KNOWN = 1.04


def main():
    parser = argparse.ArgumentParser(prog="truth.sh --publish", usage=__doc__.split("usage: ")[1])
    parser.add_argument("--settings", type=Path, default=SETTINGS)
    parser.add_argument("found", nargs="+", type=Path)
    options = parser.parse_args()
    entries = [entry(path.resolve().name, *guest.load(path, options.settings)) for path in options.found]
    before = json.loads(RECORD.read_text())
    record = merged(before, entries)
    RECORD.write_text(text(record))
    PAGE.write_text(with_tables(PAGE.read_text(), record["workloads"]))
    print(f"{RECORD}: {', '.join(one['workload'] for one in entries)}")


def objective(figures, today):
    """The objective of a setting by the default goal: lower is better, today's is 1."""
    return math.exp(sum(weight * math.log(figures[name] / today[name]) for name, weight in WEIGHTS.items()))


def kendall(pairs):
    """Kendall's tau-a of pairs (predicted, true)."""
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(pairs, 2)]
    return sum((s > 0) - (s < 0) for s in signs) / max(len(signs), 1)


def entry(workload, runs, truth, ours):
    """A workload's entry, which counts all settings except today's, the first. `runs`: the figures of each run by the setting; `truth`
    and `ours`: the measured and the predicted figures."""
    names = [name for name in truth if name in ours]
    today = names[0]
    title, system = WORKLOADS[workload]
    spread = {name: max(r["rate"] for r in runs[name]) / min(r["rate"] for r in runs[name]) if len(runs[name]) > 1 else math.inf
              for name in names}
    changes = [{"setting": name, "known": max(spread[name], spread[today]) <= KNOWN,
                "true_percent": _percent(truth[name]["rate"] / truth[today]["rate"]),
                "predicted_percent": _percent(ours[name]["rate"] / ours[today]["rate"])} for name in names[1:]]
    errors = [abs(c["predicted_percent"] - c["true_percent"]) for c in changes]
    true = {name: objective(truth[name], truth[today]) for name in names}
    predicted = {name: objective(ours[name], ours[today]) for name in names}
    chosen = min((n for n in names if ours[n]["rate"] >= SLOWEST * ours[today]["rate"]), key=predicted.get)
    best = min((n for n in names if truth[n]["rate"] >= SLOWEST * truth[today]["rate"]), key=true.get)
    return {
        "workload": workload, "title": title, "system": system, "runs": min(len(runs[name]) for name in names),
        "settings": len(changes), "known": sum(c["known"] for c in changes),
        "rate_within_ten_points": sum(error <= 10 for error in errors),
        "largest_rate_error_points": round(max(errors), 1),
        "kendall_tau": round(kendall([(ours[name]["rate"], truth[name]["rate"]) for name in names]), 2),
        "regret_percent": round(100 * (true[chosen] / true[best] - 1), 1),
        "chosen": chosen, "best": best, "changes": changes,
    }


def _percent(ratio):
    return round(100 * (ratio - 1), 1)


def with_tables(page, workloads):
    """The page with the tables of these workloads."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{tables(workloads)}{END}{rest.split(END, 1)[1]}"


def tables(workloads):
    """The tables of the page: a summary of each workload, and each prediction."""
    lines = ["| workload | runs of each setting | settings | within ten points | largest error, points | rate within 10 % "
             "| Kendall's τ of the rate | best by prediction | best in truth | regret |",
             "| --- | --: | --: | --: | --: | --: | --: | --- | --- | --: |"]
    for w in workloads:
        lines.append(_row(w["workload"], w["runs"], w["settings"], w["rate_within_ten_points"], w["largest_rate_error_points"],
                          sum(_is_close(change) for change in w["changes"]), f"{w['kendall_tau']:.2f}", w["chosen"], w["best"], f"{w['regret_percent']:.1f} %"))
    lines += ["", "| workload | setting | work rate: true, % | predicted, % | error, points |", "| --- | --- | --: | --: | --: |"]
    lines += [_row(w["workload"], c["setting"], _signed(c["true_percent"]), _signed(c["predicted_percent"]),
                   _signed(c["predicted_percent"] - c["true_percent"])) for w in workloads for c in w["changes"]]
    return "\n".join(lines) + "\n"


def _is_close(change):
    """Whether the predicted rate is within 10 % of the true one, both relative to today's."""
    return abs((100 + change["predicted_percent"]) / (100 + change["true_percent"]) - 1) <= 0.1


def _row(*cells):
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _signed(value):
    """Formats a signed number with the minus sign U+2212."""
    return f"{value:+.1f}".replace("-", "−")


def merged(before, entries):
    """The record with the lines of these workloads replaced or added, sorted by name."""
    lines = {line["workload"]: line for line in [*before["workloads"], *entries]}
    return {"format": FORMAT, "version": VERSION, "workloads": [lines[name] for name in sorted(lines)]}


def text(record):
    """The text of the record's file."""
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
