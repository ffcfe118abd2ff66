"""Writes what was found about predictions into the track record that plans show; truth.sh's help says how."""

import argparse
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "crates" / "tune" / "track-record.json"
FORMAT, VERSION = "poolwright-track-record", 1
# The database behind a driver's workload; a key-value store is named by its engine.
SYSTEMS = {"mariadb": "mariadb", "mariadb_load": "mariadb", "postgresql": "postgresql", "postgresql_scan": "postgresql",
           "sqlite": "sqlite", "openldap": "openldap"}
NEAR = 10.0


def main():
    parser = argparse.ArgumentParser(prog="truth.sh --publish", add_help=False)
    parser.add_argument("--file", type=Path, default=RECORD)
    parser.add_argument("found", nargs="+", type=Path)
    options = parser.parse_args()
    found = [json.loads(truth_of(path).read_text()) for path in options.found]
    before = json.loads(options.file.read_text()) if options.file.exists() else {"workloads": []}
    options.file.write_text(text(merged(before, [entry(one) for one in found])))
    print(f"{options.file}: {', '.join(one['workload'] for one in found)}")


def truth_of(path):
    """The comparison itself, or the one in a run's folder."""
    return path / "truth.json" if path.is_dir() else path


def entry(found):
    """A workload's line. Only settings whose true rate is known are counted, and today's is not: its change is 0."""
    errors = [abs(s["error_points"]["rate"]) for s in found["settings"]
              if s["setting"] != found["today"] and s["truth"]["known"] and "rate" in s.get("error_points", {})]
    lacks = [what for what, has in (
        ("any setting's rate", errors),
        ("the order of the settings", found["kendall_tau"] is not None),
        ("the recommended setting's rate", found["regret_percent"] is not None)) if not has]
    if lacks:
        raise SystemExit(f"truth.sh: {found['workload']}: not known well enough to publish: {', '.join(lacks)}\n"
                         "hint: add blocks with --most")
    parameters = found["parameters"]
    return {
        "workload": found["workload"], "title": found["title"],
        "system": SYSTEMS.get(parameters["workload"]) or parameters["engine"],
        "settings": len(errors), "rate_within_ten_points": sum(error <= NEAR for error in errors),
        "largest_rate_error_points": round(max(errors), 1),
        "kendall_tau": round(found["kendall_tau"], 2),
        "regret_percent": round(found["regret_percent"], 1),
    }


def merged(before, entries):
    """The record with these workloads' lines replaced or added, in the order of their names."""
    lines = {line["workload"]: line for line in [*before["workloads"], *entries]}
    return {"format": FORMAT, "version": VERSION, "workloads": [lines[name] for name in sorted(lines)]}


def text(record):
    """The record as it is in the file."""
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
