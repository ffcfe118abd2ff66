//! `poolwright tune` as a user runs it: what it says of its data.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use poolwright_trace::{Event, File, Flags, Op, Trace};
use serde_json::Value;

const PAGE: u64 = 4096;

/// An SQLite database and its log, which cannot leave the directory; nearly all syncs are the log's.
fn sqlite(dir: &Path) -> (PathBuf, PathBuf) {
    let data = dir.join("db");
    std::fs::create_dir(&data).unwrap();
    let text: String = (0..60_000u32).map(|i| format!("{:06} customer {:03}; ", i, i % 997)).collect();
    let mut table = b"SQLite format 3\0\x10\0".to_vec();
    table.extend(text.as_bytes());
    table.truncate(256 * PAGE as usize);
    std::fs::write(data.join("app.db"), &table).unwrap();
    std::fs::write(data.join("app.db-wal"), &table[..64 * PAGE as usize]).unwrap();
    let trace = dir.join("t.parquet");
    let file = |name: &str, role: &str, pages: u64| File {
        path: data.join(name).display().to_string(),
        size: pages * PAGE,
        role: role.into(),
        ..File::default()
    };
    let files = vec![file("app.db", "data", 256), file("app.db-wal", "wal", 64)];
    Trace { files, events: events(), ..Trace::default() }.save(&trace).unwrap();
    (data, trace)
}

fn events() -> Vec<Event> {
    let mut events = Vec::new();
    for i in 0..460u64 {
        let mut add = |op, file, page: u64, len| {
            let t_ns = i * 2_000_000 + events.len() as u64 % 8 * 10_000;
            let flags = Flags::default();
            events.push(Event {
                t_ns,
                dur_ns: 1000,
                op,
                file,
                offset: page * PAGE,
                len,
                pid: 1,
                tid: 1,
                flags,
                gap: None,
            });
        };
        for read in 0..4 {
            add(Op::Read, 0, (i * 37 + read * 91) % 256, PAGE);
        }
        add(Op::Write, 1, i % 64, PAGE);
        let synced = u32::from(i != 459);
        add(Op::Fsync, synced, 0, 0);
        if i % 20 == 0 {
            add(Op::Write, 0, i * 13 % 256, PAGE);
        }
    }
    events
}

fn tune(dir: &Path, data: &Path, trace: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_poolwright"))
        .current_dir(dir)
        .arg("tune")
        .arg(data)
        .arg("--trace")
        .arg(trace)
        .args(["--budget", "4s", "--device", "none", "--arc", "64M", "--scratch", "."])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_log_that_shares_the_directory_is_tried_with_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = sqlite(dir.path());
    let out = tune(dir.path(), &data, &trace, &["--json"]);
    let plan: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&out)));
    let role = |name: &str| plan["roles"].as_array().unwrap().iter().find(|r| r["role"] == name).unwrap();
    assert_eq!(role("data")["together_with"], serde_json::json!(["wal"]));
    assert_eq!(role("wal")["together_with"], serde_json::json!(["data"]));
    assert_eq!(role("wal")["recommended"], role("data")["recommended"]);
    let notes = role("wal")["notes"].to_string();
    assert!(notes.contains("tried together with data") && !notes.contains("too"), "{notes}");
    // The log's syncs are in the trials' figures: the data alone has one in the whole recording.
    let today = role("data")["evidence"].as_array().unwrap().iter().find(|e| e["outcome"] == "current");
    assert!(today.unwrap()["metrics"]["fsync_p50_ns"]["median"].as_f64() > Some(0.0), "{today:?}");
}

#[test]
fn the_recording_of_another_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = sqlite(dir.path());
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(data.join("app.db"), other.join("app.db")).unwrap();
    let out = tune(dir.path(), &other, &trace, &[]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    for part in ["none of the 2 files", "app.db", "\nhint: "] {
        assert!(said(&out).contains(part), "{part:?} is not in {}", said(&out));
    }
    assert!(!dir.path().join("plan.json").exists());
}

#[test]
fn a_recording_with_files_elsewhere_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = sqlite(dir.path());
    let mut mixed = Trace::load(&trace).unwrap();
    mixed.files[1].path = dir.path().join("elsewhere-wal").display().to_string();
    mixed.save(&trace).unwrap();
    let out = tune(dir.path(), &data, &trace, &["--json"]);
    let plan: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&out)));
    let warnings = plan["warnings"].to_string();
    assert!(warnings.contains("1 of the 2 files in the recording"), "{warnings}");
    assert!(warnings.contains("elsewhere-wal"), "{warnings}");
}
