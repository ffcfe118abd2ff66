//! `poolwright replay` as a user runs it: what a trial may take.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use poolwright_trace::{Event, File, Flags, Op, Trace};
use serde_json::Value;

const PAGE: u64 = 16384;

/// Writes with a sync after each: on a device whose flush takes 50 ms they take 20 s, unless syncs are ignored.
fn many_syncs(dir: &Path) {
    let path = dir.join("table.ibd");
    std::fs::write(&path, vec![b'x'; 64 * PAGE as usize]).unwrap();
    let mut events = Vec::new();
    for i in 0..400 {
        let write = Event {
            t_ns: i * 1_000_000,
            dur_ns: 1000,
            op: Op::Write,
            file: 0,
            offset: i % 64 * PAGE,
            len: PAGE,
            pid: 1,
            tid: 1,
            flags: Flags::default(),
        };
        events.push(write);
        events.push(Event { t_ns: write.t_ns + 10_000, op: Op::Fsync, offset: 0, len: 0, ..write });
    }
    let file =
        File { path: path.display().to_string(), size: 64 * PAGE, role: "data".into(), ..File::default() };
    Trace { files: vec![file], events, ..Trace::default() }.save(dir.join("t.parquet")).unwrap();
}

fn replay(dir: &Path, more: &str) -> Output {
    Command::new(assert_cmd::cargo::cargo_bin!("poolwright"))
        .current_dir(dir)
        .args("replay t.parquet --warm 0 --arc 64M --device flush=50ms --scratch .".split(' '))
        .args(more.split(' '))
        .output()
        .unwrap()
}

#[test]
fn a_trial_that_takes_too_long_is_no_result() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let out = replay(dir.path(), "-o sync=standard,disabled --repeat 2 --trial-timeout 8s --json");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let said: Value = serde_json::from_slice(&out.stdout).unwrap();
    let runs = said["runs"].as_array().unwrap();
    let syncs: Vec<_> = runs.iter().map(|run| run["settings"]["data"]["sync"].as_str()).collect();
    assert_eq!(syncs, [Some("disabled"); 2]);
    assert_eq!(said["comparisons"], serde_json::json!([]));
    let stopped = serde_json::json!([{"settings": {"*": {"sync": "standard"}}, "trial": 1, "limit_s": 8.0}]);
    assert_eq!(said["stopped"], stopped, "and it is not tried again");
}

#[test]
fn trials_that_all_take_too_long_are_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let slow = [("-o recordsize=16K", "recordsize=16K"), ("--dir . --paced 0.01", "OpenZFS defaults")];
    for (options, setting) in slow {
        let out = replay(dir.path(), &format!("{options} --trial-timeout 1s"));
        let (said, why) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.status.code(), Some(1), "{said}{why}");
        assert!(said.contains(&format!("Stopped after 1 s, which is no result: {setting}.")), "{said}");
        assert!(why.contains("--trial-timeout") && why.contains("--first"), "{why}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len(), 2, "the table and the trace only: {left:?}");
}
