"""Writes the figures of finished comparisons to the track record that plans show, and to docs/predictions.md (truth.sh --publish)."""

import argparse
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "crates" / "tune" / "track-record.json"
PAGE = ROOT / "docs" / "predictions.md"
# The tables of the page are between these lines.
BEGIN, END = "<!-- begin: scripts/truth.sh --publish -->", "<!-- end -->"
FORMAT, VERSION = "poolwright-track-record", 1
# The database system of a driver's workload. For a key-value store, it is the engine.
SYSTEMS = {"mariadb": "mariadb", "mariadb_load": "mariadb", "postgresql": "postgresql", "postgresql_scan": "postgresql",
           "sqlite": "sqlite", "openldap": "openldap"}


def main():
    parser = argparse.ArgumentParser(prog="truth.sh --publish", add_help=False)
    parser.add_argument("--file", type=Path, default=RECORD)
    parser.add_argument("--page", type=Path)
    parser.add_argument("found", nargs="+", type=Path)
    options = parser.parse_args()
    found = [json.loads(truth_of(path).read_text()) for path in options.found]
    before = json.loads(options.file.read_text()) if options.file.exists() else {"workloads": []}
    record = merged(before, [entry(one) for one in found])
    options.file.write_text(text(record))
    page = options.page or (PAGE if options.file == RECORD else None)
    if page:
        page.write_text(with_tables(page.read_text(), record["workloads"]))
    print(f"{options.file}: {', '.join(one['workload'] for one in found)}")


def truth_of(path):
    """The path of a comparison, given as a file or as the directory of a run."""
    return path / "truth.json" if path.is_dir() else path


def entry(found):
    """A workload's entry. It counts all settings except today's, known or not; noise of the measurements increases the errors."""
    figures, largest = found["all"], found["all"]["largest_rate_error_points"]
    lacks = [what for what, has in (
        ("any setting's rate", largest),
        ("the order of the settings", figures["kendall_tau"] is not None),
        ("the recommended setting's objective", figures["regret_percent"] is not None)) if not has]
    if lacks:
        raise SystemExit(f"truth.sh: {found['workload']}: not known well enough to publish: {', '.join(lacks)}\n"
                         "hint: add blocks with --most")
    parameters = found["parameters"]
    return {
        "workload": found["workload"], "title": found["title"].split(":")[0],
        "system": SYSTEMS.get(parameters["workload"]) or parameters["engine"],
        "settings": figures["rate_within_ten_points"]["of"],
        "known": found["known"],
        "rate_within_ten_points": figures["rate_within_ten_points"]["agree"],
        "rate_in_interval": found["in_interval"]["agree"],
        "blocks": max(s["truth"]["blocks"] for s in found["settings"]),
        "pairs": found["order"],
        "largest_rate_error_points": round(largest["points"], 1),
        "kendall_tau": round(figures["kendall_tau"], 2),
        "regret_percent": round(figures["regret_percent"], 1),
        "recommended": recommended(found),
        "changes": [change(s) for s in found["settings"] if s["setting"] != found["today"]],
    }


def recommended(found):
    """The recommended setting, its objectives, and the best true objective."""
    of = {s["setting"]: s for s in found["settings"]}
    it = of[found["recommended"]]
    return {"setting": found["recommended"], "true_objective": round(it["truth"]["objective"], 3),
            "predicted_objective": round(it["predicted"]["objective"], 3) if "predicted" in it else None,
            "best_objective": round(min(s["truth"]["objective"] for s in of.values() if s["truth"].get("objective")), 3)}


def change(setting):
    """The change of a setting's work rate relative to today's in per cent. `known`: the interval of the true change is narrow enough."""
    true, predicted = setting["truth"]["change"]["rate"], setting.get("predicted", {}).get("change", {}).get("rate")
    low, high = true["ci95"] or (None, None)
    return {"setting": setting["setting"], "known": setting["truth"]["known"], "true_percent": _percent(true["ratio"]),
            "low_percent": _percent(low), "high_percent": _percent(high), "predicted_percent": _percent(predicted)}


def _percent(ratio):
    return None if ratio is None else round(100 * (ratio - 1), 1)


def with_tables(page, workloads):
    """The page with the tables of these workloads."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{tables(workloads)}{END}{rest.split(END, 1)[1]}"


def tables(workloads):
    """The tables of the page: a summary of each workload, and each prediction."""
    lines = ["| workload | blocks | settings | within ten points | in the interval | largest error, points | pairs in order | Kendall's τ "
             "| recommended | its objective: true | predicted | best true one | regret |",
             "| --- | --: | --: | --: | --: | --: | --: | --: | --- | --: | --: | --: | --: |"]
    for w in workloads:
        it = w["recommended"]
        lines.append(_row(w["workload"], w["blocks"], w["settings"], w["rate_within_ten_points"], w["rate_in_interval"],
                          w["largest_rate_error_points"], f"{w['pairs']['agree']} of {w['pairs']['of']}",
                          f"{w['kendall_tau']:.2f}", it["setting"], _objective(it["true_objective"]),
                          _objective(it["predicted_objective"]), _objective(it["best_objective"]), f"{w['regret_percent']:.1f} %"))
    lines += ["", "| workload | setting | work rate: true (95 %), % | predicted, % | error, points | |", "| --- | --- | --: | --: | --: | --- |"]
    for w in workloads:
        for c in w["changes"]:
            interval = "" if c["low_percent"] is None else f" ({_signed(c['low_percent'])} to {_signed(c['high_percent'])})"
            error = None if c["predicted_percent"] is None else c["predicted_percent"] - c["true_percent"]
            lines.append(_row(w["workload"], c["setting"], f"{_signed(c['true_percent'])}{interval}", _signed(c["predicted_percent"]),
                              _signed(error), "" if c["known"] else "not known"))
    return "\n".join(lines) + "\n"


def _row(*cells):
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _objective(value):
    return "" if value is None else f"{value:.3f}"


def _signed(value):
    """Formats a signed number with the minus sign U+2212."""
    return "" if value is None else f"{value:+.1f}".replace("-", "−")


def merged(before, entries):
    """The record with the lines of these workloads replaced or added, sorted by name."""
    lines = {line["workload"]: line for line in [*before["workloads"], *entries]}
    return {"format": FORMAT, "version": VERSION, "workloads": [lines[name] for name in sorted(lines)]}


def text(record):
    """The text of the record's file."""
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
