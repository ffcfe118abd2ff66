#!/usr/bin/env python3
"""Tests queries/fleet: makes traces with known events, runs the queries, and compares their answers with a computation in Python.

usage: fleet.py iolog FILE               writes a log of fio, to be imported
       fleet.py generate DIR             writes the traces into DIR/fleet and the answers into DIR/expected.json
       fleet.py duckdb DIR               runs the queries on DIR/fleet; the answers go to DIR/duckdb.json and, where the traces were scanned in
                                         two batches, to DIR/duckdb-batches.json
       fleet.py compare DIR FILE [SHOWN] compares the answers in DIR/FILE; SHOWN is `trace show --json` of DIR/fleet/imported.parquet

Exit status: 0 all as expected, 1 not, 2 wrong usage.
"""

import json
import re
import sys
from pathlib import Path

QUERIES = Path(__file__).resolve().parents[2] / "queries" / "fleet"
QUESTIONS = ["1-inventory", "2-recordsize", "3-gain", "4-sync", "5-mix"]
# The answers, and the columns that identify a row of each.
ANSWERS = {"fleet_inventory": ["host", "date"], "fleet_recordsize": ["host", "date", "path"], "fleet_gain": ["host", "database"],
           "fleet_gain_total": [], "fleet_sync": ["host", "database", "role"], "fleet_mix": ["host", "database"]}
IMPORTED = "imported"


def statements(path):
    """The statements of a file, without comments."""
    return [s for s in re.split(r";\s*\n", re.sub(r"(?m)^--.*\n", "", path.read_text())) if s.strip()]


def rows_of(frame_columns, frame_rows):
    return [dict(zip(frame_columns, row)) for row in frame_rows]


def run_duckdb(root):
    import duckdb

    def session(**variables):
        db = duckdb.connect()
        for name, value in {"datasets": f"{root}/fleet/*/datasets.tsv", **variables}.items():
            db.execute(f"SET VARIABLE {name} = {value!r}")
        return db

    def run(db, *names):
        for name in names:
            for statement in statements(QUERIES / f"{name}.sql"):
                db.execute(statement)

    def save(db, file):
        answers = {}
        for view in ANSWERS:
            result = db.execute(f"FROM {view}")
            answers[view] = rows_of([column[0] for column in result.description], result.fetchall())
        Path(root, file).write_text(json.dumps(answers))

    traces = [f"{root}/fleet/host=*/date=*/*.parquet", f"{root}/fleet/*.parquet"]
    db = session(traces=traces)
    run(db, "traces", "summary", "cost", *QUESTIONS)
    save(db, "duckdb.json")
    for number, batch in enumerate(traces):
        Path(root, "summaries", str(number)).mkdir(parents=True)
        run(session(traces=batch, summary=f"{root}/summaries/{number}"), "traces", "summary", "save")
    db = session(summaries=f"{root}/summaries/*")
    run(db, "load", "cost", *QUESTIONS)
    save(db, "duckdb-batches.json")


def generate(root):
    import fleet_events
    import fleet_expected

    traces = list(fleet_events.fleet())
    for trace in traces:
        fleet_events.write(trace, Path(root, "fleet"))
    Path(root, "expected.json").write_text(json.dumps(fleet_expected.answers(traces)))
    events = sum(len(trace["events"]) for trace in traces)
    print(f"{len(traces)} traces with {events} events")


def equal(expected, actual):
    """Whether a value is the expected one. [value, digits] is a value that the query rounds."""
    if isinstance(expected, list):
        value, digits = expected
        if value is None or actual is None:
            return value is None and actual is None
        return abs(value - actual) <= 0.5001 * 10**-digits + 1e-9 * abs(value)
    if isinstance(expected, (float, bool)):
        return actual is not None and abs(float(expected) - float(actual)) <= 1e-9 * max(1, abs(expected))
    return expected == actual


def compare(root, file, shown=None):
    expected = json.loads(Path(root, "expected.json").read_text())
    actual = json.loads(Path(root, file).read_text())
    wrong = []
    for answer, key in ANSWERS.items():
        by_key = {tuple(row[k] for k in key): row for row in actual[answer] if row.get("host") != IMPORTED}
        wanted = {tuple(row[k] for k in key): row for row in expected[answer]}
        if len(by_key) != len([row for row in actual[answer] if row.get("host") != IMPORTED]):
            wrong.append(f"{answer}: rows with the same {key}")
        if by_key.keys() != wanted.keys():
            wrong.append(f"{answer}: rows only here {sorted(by_key.keys() - wanted.keys())[:3]}, rows missing {sorted(wanted.keys() - by_key.keys())[:3]}")
        has_imported = any(row["host"] == IMPORTED for row in actual["fleet_inventory"])
        if answer == "fleet_gain_total" and has_imported:
            continue  # contains the imported trace; totals() checks the sums
        for at in by_key.keys() & wanted.keys():
            for name, value in wanted[at].items():
                if not (name == "rank" and has_imported) and not equal(value, by_key[at].get(name)):
                    wrong.append(f"{answer} {at}: {name} is {by_key[at].get(name)} instead of {value}")
    wrong += totals(actual) + known(actual) + (imported(actual, json.loads(Path(shown).read_text())) if shown else [])
    for line in wrong[:30]:
        print(f"{file}: {line}", file=sys.stderr)
    print(f"{file}: {sum(len(rows) for rows in actual.values())} rows, {len(wrong)} wrong")
    return 1 if wrong else 0


def totals(actual):
    """The totals are the sums of the ranking, and the ranking is in order."""
    gain, total = actual["fleet_gain"], actual["fleet_gain_total"][0]
    wrong = [f"total {name}: {total[name]}" for name in ["traces", "write_bytes", "read_bytes", "saved_write_bytes", "saved_load_bytes", "saved_bytes_s"]
             if abs(total[name] - sum(row[name] for row in gain)) > 1e-6 * abs(total[name])]
    rates = [row["saved_bytes_s"] for row in sorted(gain, key=lambda row: row["rank"])]
    return wrong + ([] if all(a >= b for a, b in zip(rates, rates[1:])) else ["the ranking is not in order"])


def known(actual):
    """What the kinds of databases must show, without any computation."""
    wrong = []

    def expect(what, rows, condition):
        if not rows or not all(condition(row) for row in rows):
            wrong.append(f"{what}: {[row for row in rows if not condition(row)][:1]}")

    def of(answer, kind, **where):
        return [row for row in actual[answer] if row["host"].startswith(kind) and all(row[k] == v for k, v in where.items())]

    expect("8K writes on records of 128K", of("fleet_recordsize", "random8k", path="/db/t.ibd"), lambda row: row["best_recordsize"] == 8192
           and row["recordsize"] == 131072 and row["partial_share"] == 1 and row["write_alignment"] >= 8192 and 14 < row["wa_128k"] <= 16
           and 0.95 < row["wa_8k"] <= 1 and row["writes_4k"] == 0)
    expect("the nested dataset", of("fleet_recordsize", "random8k", path="/db/other/x"), lambda row: row["recordsize"] == 16384)
    expect("the file beside the dataset", of("fleet_recordsize", "random8k", path="/dbx"), lambda row: row["recordsize"] == 1 << 20)
    expect("the sequential writer", of("fleet_gain", "sequential"), lambda row: row["changes"] == "" and row["saved_write_bytes"] == 0)
    expect("its amplification", of("fleet_recordsize", "sequential", role="data"), lambda row: row["wa_128k"] <= 1.05 and row["partial_share"] < 0.02)
    expect("the synced log", of("fleet_sync", "tinysync", role="wal"), lambda row: row["small_share"] == 1 and row["bytes_per_commit"] < 700
           and 0.99 < row["synced_share"] < 1 and row["logbias"] == "throughput")
    expect("its working set", of("fleet_mix", "tinysync"), lambda row: row["arc_ratio"] == 0.25 and row["read_share"] == 0)
    expect("the recordsize of 2M", of("fleet_recordsize", "bulk"), lambda row: row["recordsize"] == 2 << 20 and row["recorded"])
    expect("no datasets", of("fleet_mix", "plain"), lambda row: row["arc_bytes"] is None)
    return wrong


def imported(actual, shown):
    """A trace that Poolwright wrote has the figures of `trace show`."""
    (row,) = [row for row in actual["fleet_inventory"] if row["host"] == IMPORTED]
    (mix,) = [row for row in actual["fleet_mix"] if row["host"] == IMPORTED]
    (blocks,) = [s for s in shown["working_set"] if s["block"] == 131072]
    pairs = [(row["reads"], shown["ops"]["read"]), (row["writes"], shown["ops"]["write"]), (row["read_bytes"], shown["bytes"]["read"]),
             (row["write_bytes"], shown["bytes"]["write"]), (row["events"], shown["events"]), (mix["working_set_bytes"], blocks["bytes"]),
             (mix["write_set_bytes"], blocks["write_bytes"]), (mix["sequential_reads"], round(shown["read"]["sequential"], 4)),
             (mix["sequential_writes"], round(shown["write"]["sequential"], 4)), (row["duration_s"], shown["duration_s"])]
    return [f"the imported trace: {pair[0]} instead of {pair[1]}" for pair in pairs if abs(pair[0] - pair[1]) > 1e-4]


def main():
    verb, *rest = sys.argv[1:] or [""]
    if verb == "iolog" and len(rest) == 1:
        import fleet_events

        Path(rest[0]).write_text(fleet_events.iolog())
    elif verb in ("generate", "duckdb") and len(rest) == 1:
        {"generate": generate, "duckdb": run_duckdb}[verb](rest[0])
    elif verb == "compare" and len(rest) in (2, 3):
        return compare(*rest)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
