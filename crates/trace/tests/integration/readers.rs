//! Tests that DuckDB, pandas and pyarrow can read a trace, with the Python environment at `$POOLWRIGHT_VENV` (default
//! `target/venv`). Prints the names of missing modules and skips their tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::trace;
use poolwright_trace::layout::Role;
use poolwright_trace::{Op, Trace, Writer};

fn python() -> PathBuf {
    let venv = std::env::var_os("POOLWRIGHT_VENV").map(PathBuf::from);
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv");
    let python = venv.unwrap_or_else(default).join("bin/python3");
    if python.exists() { python } else { PathBuf::from("python3") }
}

/// Runs `program` with the trace as its argument. Returns `None` if python3 or one of the `modules` is missing.
fn run(modules: &[&str], program: &str, trace: &Path) -> Option<serde_json::Value> {
    for module in modules {
        let found = Command::new(python()).args(["-c", &format!("import {module}")]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            println!("skipped: {module} cannot be imported by {}", python().display());
            return None;
        }
    }
    let output = Command::new(python()).args(["-c", program]).arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

const DUCKDB: &str = r#"
import duckdb, json, sys
rows = duckdb.execute('select count(*), sum(len), min(t_ns), max("offset") from read_parquet(?)', sys.argv[1:2]).fetchone()
reads = duckdb.execute("select path, role, count(*) from read_parquet(?) where op = 'read' group by all order by 1", sys.argv[1:2]).fetchall()
meta = duckdb.execute("select decode(value) from parquet_kv_metadata(?) where decode(key) = 'poolwright.meta'", sys.argv[1:2]).fetchone()
print(json.dumps({"rows": [int(r) for r in rows], "reads": reads, "meta": json.loads(meta[0])}))
"#;

const PANDAS: &str = r#"
import json, pandas, sys
frame = pandas.read_parquet(sys.argv[1])
reads = frame[frame.op == "read"].groupby(["path", "role"]).size()
print(json.dumps({"rows": [len(frame), int(frame.len.sum()), int(frame.t_ns.min()), int(frame.offset.max())],
                  "reads": [[p, r, int(n)] for (p, r), n in reads.items()]}))
"#;

const PYARROW: &str = r#"
import json, pyarrow.parquet, pyarrow.compute as pc, sys
file = pyarrow.parquet.ParquetFile(sys.argv[1])
table = file.read()
print(json.dumps({"columns": [[f.name, str(f.type)] for f in table.schema], "rows": table.num_rows,
                  "meta": json.loads(file.metadata.metadata[b"poolwright.meta"])}))
"#;

/// Returns the values that DuckDB and pandas should find.
fn expected(trace: &Trace) -> serde_json::Value {
    let events = &trace.events;
    let mut reads = std::collections::BTreeMap::<_, u64>::new();
    for event in events.iter().filter(|e| e.op == Op::Read) {
        let file = &trace.files[event.file as usize];
        *reads.entry((file.path.clone(), file.role.map_or("", Role::name))).or_default() += 1;
    }
    let reads: Vec<_> =
        reads.into_iter().map(|((path, role), n)| serde_json::json!([path, role, n])).collect();
    let sum: u64 = events.iter().map(|e| e.len).sum();
    let first = events.iter().map(|e| e.t_ns).min();
    let last = events.iter().map(|e| e.offset).max();
    serde_json::json!({"rows": [events.len(), sum, first, last], "reads": reads})
}

#[test]
fn duckdb_reads_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let trace = trace(300_000, 4); // two row groups
    trace.save(&path).unwrap();
    let Some(mut found) = run(&["duckdb"], DUCKDB, &path) else { return };
    assert_eq!(found["meta"]["lost_events"], 3);
    found.as_object_mut().unwrap().remove("meta");
    assert_eq!(found, expected(&trace));
}

#[test]
fn pandas_reads_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let trace = trace(50_000, 4);
    trace.save(&path).unwrap();
    let Some(found) = run(&["pandas", "pyarrow"], PANDAS, &path) else { return };
    assert_eq!(found, expected(&trace));
}

#[test]
fn pyarrow_sees_the_documented_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    trace(100, 4).save(&path).unwrap();
    let Some(found) = run(&["pyarrow"], PYARROW, &path) else { return };
    let documented = [
        ("t_ns", "int64"),
        ("dur_ns", "int64"),
        ("op", "string"),
        ("file", "uint32"),
        ("path", "string"),
        ("role", "string"),
        ("offset", "int64"),
        ("len", "int64"),
        ("pid", "uint32"),
        ("tid", "uint32"),
        ("flags", "uint16"),
        ("gap_cpu_ns", "int64"),
        ("gap_ready_ns", "uint32"),
        ("gap_wake_ns", "uint32"),
        ("waker", "uint32"),
        ("gap_served_ns", "uint32"),
    ];
    assert_eq!(found["columns"], serde_json::json!(documented));
    assert_eq!(found["meta"]["subject"], "dir:/db");
}

/// Without `finish`, other programs can open the file as of its last checkpoint.
#[test]
fn duckdb_reads_what_a_killed_recorder_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let trace = trace(3000, 4);
    let mut writer = Writer::create(&path, trace.meta.clone()).unwrap();
    for file in &trace.files {
        writer.file(file.clone());
    }
    for events in trace.events.chunks(1000) {
        events.iter().for_each(|event| writer.push(*event).unwrap());
        writer.checkpoint().unwrap();
    }
    writer.push(trace.events[0]).unwrap();
    std::mem::forget(writer); // a kill runs no destructor
    let Some(found) = run(&["duckdb"], DUCKDB, &path) else { return };
    assert_eq!(found["rows"][0], 3000);
}
