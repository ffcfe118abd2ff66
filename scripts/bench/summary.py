#!/usr/bin/env python3
"""Collects the figures of a run of the benches; prints a table and writes latest.json.

usage: summary.py RESULTS

RESULTS contains NAME.log and NAME.status of each bench. README.md beside this file defines the format of a figure.
Exit status: 0 all figures met their bar, 1 a figure missed its bar, or a bench failed or printed a malformed figure, 2 wrong usage.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

REQUIRED = {"name": str, "value": (int, float), "unit": str}
OPTIONAL = {"reference": (int, float), "ratio": (int, float), "bar": str, "pass": bool}


def output_of(*command):
    """The first line that a command prints; empty if the command cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""


def machine():
    """Hardware and software versions of this machine."""
    cpu = ""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "openzfs": output_of("dpkg-query", "-W", "-f", "${Version}", "libzfslinux-dev"),
        "mariadb": output_of("dpkg-query", "-W", "-f", "${Version}", "mariadb-server-core"),
        "rustc": output_of("rustc", "--version"),
    }


def parse_figure(text):
    """Parses the figure of a BENCH line. Raises ValueError if it is malformed."""
    figure = json.loads(text)
    if not isinstance(figure, dict):
        raise ValueError("not an object")
    for key, kind in REQUIRED.items():
        if not isinstance(figure.get(key), kind) or isinstance(figure.get(key), bool):
            raise ValueError(f"'{key}' is missing or has the wrong type")
    for key, kind in OPTIONAL.items():
        value = figure.setdefault(key, None)
        wrong_bool = isinstance(value, bool) and kind is not bool
        if value is not None and (wrong_bool or not isinstance(value, kind)):
            raise ValueError(f"'{key}' has the wrong type")
    if figure["bar"] is not None and figure["pass"] is None:
        raise ValueError("'bar' requires 'pass'")
    return figure


def gather(results):
    """The figures, the skipped benches and the failed benches in a directory of logs."""
    figures, skipped, failed = [], [], []
    for log in sorted(results.glob("*.log")):
        bench = log.stem
        found = False
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("BENCH-SKIP "):
                skipped.append({"bench": bench, "reason": line[len("BENCH-SKIP ") :]})
                found = True
            elif line.startswith("BENCH "):
                found = True
                try:
                    figures.append({**parse_figure(line[len("BENCH ") :]), "bench": bench})
                except ValueError as error:
                    failed.append({"bench": bench, "status": f"malformed figure: {error}: {line}"})
        status_file = log.with_suffix(".status")
        status = status_file.read_text(encoding="utf-8").strip() if status_file.exists() else "did not finish"
        if status != "0":
            failed.append({"bench": bench, "status": status})
        elif not found:
            failed.append({"bench": bench, "status": "printed no figure"})
    return figures, skipped, failed


def number(value):
    """Formats a figure with about three significant digits."""
    if value is None:
        return "-"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def print_table(figures):
    """Prints one row for each figure."""
    verdict = {True: "pass", False: "MISSED", None: ""}
    rows = [("figure", "value", "reference", "unit", "ratio", "bar", "")]
    for f in figures:
        rows.append(
            (f["name"], number(f["value"]), number(f["reference"]), f["unit"], number(f["ratio"]), f["bar"] or "-", verdict[f["pass"]])
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for index, row in enumerate(rows):
        cells = [row[i].rjust(widths[i]) if i in (1, 2, 4) else row[i].ljust(widths[i]) for i in range(len(row))]
        print("  ".join(cells).rstrip())
        if index == 0:
            print("  ".join("-" * width for width in widths).rstrip())


def main():
    """Returns the exit status."""
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stderr)
        return 0 if sys.argv[1:] and sys.argv[1] in ("-h", "--help") else 2
    results = Path(sys.argv[1])
    figures, skipped, failed = gather(results)
    smoke = os.environ.get("BENCH_SMOKE") == "1"
    summary = {
        "machine": machine(),
        "commit": output_of("git", "describe", "--always", "--dirty"),
        "smoke": smoke,
        "results": figures,
        "skipped": skipped,
        "failed": failed,
    }
    (results / "latest.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print()
    if figures:
        print_table(figures)
    else:
        print("No figures.")
    for entry in skipped:
        print(f"skipped: {entry['bench']}: {entry['reason']}")
    for entry in failed:
        print(f"FAILED: {entry['bench']}: {entry['status']}")
    missed = [f["name"] for f in figures if f["pass"] is False]
    print(f"\n{len(figures)} figures, {len(missed)} below their bar, {len(skipped)} benches skipped, {len(failed)} failed; {results}/latest.json")
    # A short run (BENCH_SMOKE) checks that the benches work; its figures are too imprecise to judge by their bars.
    return 1 if failed or (missed and not smoke) else 0


if __name__ == "__main__":
    sys.exit(main())
