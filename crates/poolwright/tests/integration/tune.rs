//! `poolwright tune` as a user runs it: data and log in one directory, foreign recordings, recordings that begin idle,
//! and published advice.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::mounted::{Mounted, umount, until};
use crate::common::skip_without_fuse;
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Op, Trace};
use serde_json::{Value, json};

const PAGE: u64 = 4096;

/// An SQLite database and its log, which must be in the same directory; nearly all syncs are those of the log.
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
        role: Role::from_name(role),
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

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_log_that_shares_the_directory_is_tried_with_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = sqlite(dir.path());
    let out = tune(dir.path(), &data, &trace, &["--json"]);
    let plan: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", messages(&out)));
    let plan = crate::common::follows_schema("plan", plan);
    let role = |name: &str| plan["roles"].as_array().unwrap().iter().find(|r| r["role"] == name).unwrap();
    assert_eq!(role("data")["together_with"], serde_json::json!(["wal"]));
    assert_eq!(role("wal")["together_with"], serde_json::json!(["data"]));
    assert_eq!(role("wal")["recommended"], role("data")["recommended"]);
    let notes = role("wal")["notes"].to_string();
    assert!(notes.contains("tried together with data") && !notes.contains("too"), "{notes}");
    // The figures of the trials include the syncs of the log: the data have only one in the whole recording.
    let today = role("data")["evidence"].as_array().unwrap().iter().find(|e| e["outcome"] == "current");
    assert!(today.unwrap()["metrics"]["fsync_p50_ns"]["median"].as_f64() > Some(0.0), "{today:?}");
}

/// A PostgreSQL whose log is behind a link, on another dataset, and a recording of it.
fn postgresql_with_its_log_elsewhere() -> Mounted {
    let pool = Mounted::on("a.img:1G");
    pool.run("dataset create tank/log -o recordsize=64K -o compression=off");
    std::fs::create_dir(pool.at("log")).unwrap();
    pool.run("mount tank/log log --background");
    let m = pool.at("m").canonicalize().unwrap();
    for dir in ["base/1", "global"] {
        std::fs::create_dir_all(m.join(dir)).unwrap();
    }
    for file in ["PG_VERSION", "global/pg_control"] {
        std::fs::write(m.join(file), "15\n").unwrap();
    }
    std::os::unix::fs::symlink(pool.at("log").canonicalize().unwrap(), m.join("pg_wal")).unwrap();
    let text: String = (0..60_000u32).map(|i| format!("{:06} customer {:03}; ", i, i % 997)).collect();
    let file = |name: &str, role: &str, pages: u64| {
        std::fs::write(m.join(name), &text[..(pages * PAGE) as usize]).unwrap();
        File {
            path: m.join(name).display().to_string(),
            size: pages * PAGE,
            role: Role::from_name(role),
            ..File::default()
        }
    };
    let files = vec![file("base/1/2", "data", 256), file("pg_wal/000000010000000000000001", "wal", 64)];
    Trace { files, events: events(), ..Trace::default() }.save(pool.at("t.parquet")).unwrap();
    pool
}

#[test]
fn a_log_on_another_dataset_has_the_properties_of_that_one() {
    skip_without_fuse!();
    let pool = postgresql_with_its_log_elsewhere();
    let tuned = pool
        .command("tune m --trace t.parquet --budget 4s --device none --arc 64M --scratch .")
        .output()
        .unwrap();
    // On a busy machine, the few trials can be too noisy for a recommendation.
    assert!([Some(0), Some(4)].contains(&tuned.status.code()), "{}", messages(&tuned));
    let text = std::fs::read_to_string(pool.at("plan.json")).unwrap();
    let mut plan: Value = serde_json::from_str(&text).unwrap();
    plan["verdict"] = json!("change");
    let role = |name: &str| plan["roles"].as_array().unwrap().iter().position(|r| r["role"] == name).unwrap();
    let (data, wal) = (role("data"), role("wal"));
    let today = |role: usize| {
        let of = &plan["roles"][role];
        json!([of["place"]["dataset"], of["current"]["recordsize"], of["current"]["compression"]])
    };
    assert_eq!(today(data), json!(["tank", "128K", "on"]));
    assert_eq!(today(wal), json!(["tank/log", "64K", "off"]));
    let log = pool.at("log").canonicalize().unwrap();
    assert_eq!(plan["roles"][wal]["place"]["mountpoint"], json!(log));
    assert!(!plan["warnings"].to_string().contains("in the recording"), "{}", plan["warnings"]);

    // The plan can be applied there, whatever it recommends.
    for (index, role) in plan["roles"].as_array_mut().unwrap().iter_mut().enumerate() {
        role["recommended"] = if index == wal { json!({"recordsize": "16K"}) } else { json!({}) };
    }
    std::fs::write(pool.at("plan.json"), plan.to_string()).unwrap();
    let datasets = pool.json("apply plan.json --dry-run")["assessment"]["datasets"].clone();
    assert_eq!((datasets[0]["dataset"].as_str(), datasets.as_array().unwrap().len()), (Some("tank/log"), 1));
    until("the log can be unmounted", || umount(&pool.at("log")));
    pool.umount();
}

#[test]
fn the_recording_of_another_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = sqlite(dir.path());
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(data.join("app.db"), other.join("app.db")).unwrap();
    let out = tune(dir.path(), &other, &trace, &[]);
    assert_eq!(out.status.code(), Some(2), "{}", messages(&out));
    for part in ["none of the 2 files", "app.db", "\nhint: "] {
        assert!(messages(&out).contains(part), "{part:?} is not in {}", messages(&out));
    }
    assert!(!dir.path().join("plan.json").exists());
}

#[test]
fn a_recording_with_files_elsewhere_causes_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = sqlite(dir.path());
    let mut mixed = Trace::load(&trace).unwrap();
    mixed.files[1].path = dir.path().join("elsewhere-wal").display().to_string();
    mixed.save(&trace).unwrap();
    let out = tune(dir.path(), &data, &trace, &["--json"]);
    let plan: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", messages(&out)));
    let plan = crate::common::follows_schema("plan", plan);
    let warnings = plan["warnings"].to_string();
    assert!(warnings.contains("1 of the 2 files in the recording"), "{warnings}");
    assert!(warnings.contains("elsewhere-wal"), "{warnings}");
}

/// The application starts its load 30 s after the recording began.
#[test]
fn a_recording_that_begins_idle_is_tuned_from_its_first_busy_second() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = sqlite(dir.path());
    let mut late = Trace::load(&trace).unwrap();
    late.events.iter_mut().for_each(|event| event.t_ns += 30_000_000_000);
    // When the recorder began, the application opened its file.
    late.events
        .insert(0, Event { t_ns: 1_000_000, op: Op::Open, len: 256 * PAGE, offset: 0, ..late.events[0] });
    late.meta.duration_ns = 31_000_000_000;
    late.save(&trace).unwrap();
    let out = tune(dir.path(), &data, &trace, &["--json"]);
    let plan: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", messages(&out)));
    let plan = crate::common::follows_schema("plan", plan);
    let data = plan["roles"].as_array().unwrap().iter().find(|r| r["role"] == "data").unwrap();
    let slice = &data["replayed"];
    assert_eq!((&slice["begin_s"], &slice["end_s"]), (&30.0.into(), &31.0.into()), "{data}");
    assert!(data["notes"].to_string().contains("the trials begin at 30 s of the recording"), "{data}");
    let today = data["evidence"].as_array().unwrap().iter().find(|e| e["outcome"] == "current").unwrap();
    assert!(today["metrics"]["work_rate"]["median"].as_f64() > Some(0.0), "{today}");
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("30.0 s to 31.0 s"));
}

#[test]
fn published_advice_is_measured_where_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = sqlite(dir.path());
    let out = tune(dir.path(), &data, &trace, &["--check-advice", "--json"]);
    let plan: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", messages(&out)));
    let plan = crate::common::follows_schema("plan", plan);
    let advice = plan["advice"].as_array().unwrap();
    let rule = |name: &str| advice.iter().find(|a| a["rule"] == name).unwrap_or_else(|| panic!("{advice:?}"));
    assert_eq!(rule("lz4")["status"], "followed");
    for name in ["sqlite-64k", "redundant-metadata", "wide-records"] {
        assert_eq!(rule(name)["status"], "tried", "{advice:?}");
        assert!(rule(name)["measured"]["allocated_bytes"]["ci95"].is_array(), "{advice:?}");
        assert!(rule(name)["source"]["url"].as_str().unwrap().starts_with("https://"));
    }
    assert_eq!(rule("redundant-metadata")["basis"], "2 pairs of trials against today's settings");
    assert_eq!(rule("atime")["status"], "not-tried");
    assert!(advice.iter().all(|a| a["rule"] != "innodb-page"), "{advice:?}");

    let unbeaten = &plan["pareto"][0];
    assert!(!unbeaten["settings"].as_array().unwrap().is_empty(), "{unbeaten}");
    assert!(plan["track_record"]["measured"].as_u64() > Some(0), "{}", plan["track_record"]);
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    for part in ["Pareto-optimal settings", "Published advice"] {
        assert!(page.contains(&format!("<h2>{part}</h2>")), "{part}");
    }
}
