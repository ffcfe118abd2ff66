//! `poolwright verify` on a mounted pool with a load.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::mounted::Mounted;
use crate::common::{follows_schema, skip_without_fuse};
use poolwright_plan::{Plan, Verification};
use serde_json::{Value, json};

const FILE: &str = "m/table";
const BYTES: u64 = 16 << 20;

/// A thread that reads and writes the table until it is dropped.
struct Load {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(path: &Path, count: &Path) -> Load {
        let over = Arc::new(AtomicBool::new(false));
        let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let (stop, count, next) = (Arc::clone(&over), count.to_owned(), count.with_extension("next"));
        let thread = std::thread::spawn(move || {
            let mut block = vec![0; 16 << 10];
            for n in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // A fixed order that visits all blocks.
                let at = (n * 389 % (BYTES >> 14)) << 14;
                file.read_exact_at(&mut block, at).unwrap();
                if n.is_multiple_of(4) {
                    file.write_all_at(&block, at).unwrap();
                }
                if n.is_multiple_of(20) {
                    file.sync_data().unwrap();
                    fs::write(&next, n.to_string()).unwrap();
                    fs::rename(&next, &count).unwrap();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Load { over, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join).unwrap().unwrap();
    }
}

/// Writes a plan for the pool's root dataset, which promises these changes of the space.
fn write_plan(pool: &Mounted) {
    let example = include_str!("../../../../docs/examples/plan.json");
    let mut plan: Value = serde_json::from_str(example).unwrap();
    let m = pool.at("m").canonicalize().unwrap();
    plan["subject"] = json!({"directory": m, "file_system": "fuse.poolwright", "dataset": "tank",
        "files": 1, "bytes": 1, "allocated_bytes": 1});
    plan["roles"].as_array_mut().unwrap().truncate(1);
    let role = &mut plan["roles"][0];
    role["place"] = json!({"mountpoint": m, "separable": true});
    role["paths"] = json!([m]);
    role["path"] = json!(m);
    role["recommended"] = json!({"compression": "gzip-9"});
    let gain = |change: f64, low: f64, high: f64| json!({"from": 1.0, "to": 1.0 + change, "change": change, "ci95": [low, high], "pairs": 6, "verdict": "better"});
    // A role that could have a dataset of its own. `apply` leaves it where it is, which happens to have its setting.
    let mut wal = plan["roles"][0].clone();
    wal["role"] = json!("wal");
    wal["recommended"] = json!({"recordsize": "128K"});
    wal["place"] = json!({"mountpoint": m.join("wal"), "separable": true, "how": "a symbolic link"});
    plan["roles"].as_array_mut().unwrap().push(wal);
    plan["gain"] = json!({"allocated_bytes": gain(-0.2, -0.25, -0.15), "work_rate": gain(0.5, 0.4, 0.6)});
    plan["goal"] = json!({"name": "space", "weights": {"allocated_bytes": 1.0}});
    for gone in ["trace", "request"] {
        plan.as_object_mut().unwrap().remove(gone);
    }
    write(pool, plan);
}

/// Writes a plan with its fields in the order of the format, by which the program recognizes its own files.
fn write(pool: &Mounted, plan: Value) {
    let plan: Plan = serde_json::from_value(plan).unwrap();
    fs::write(pool.at("plan.json"), serde_json::to_string_pretty(&plan).unwrap()).unwrap();
}

fn read(pool: &Mounted, file: &str) -> Value {
    serde_json::from_slice(&fs::read(pool.at(file)).unwrap()).unwrap()
}

/// Runs the verb; returns its exit code, its output and its messages.
fn verify(pool: &Mounted) -> (i32, Value, String) {
    let words = ["verify", "plan.json", "--for", "10s", "--json", "--work", "cat count"];
    let done = pool.command("").args(words).output().unwrap();
    let found = serde_json::from_slice(&done.stdout).unwrap_or_default();
    (done.status.code().unwrap(), found, String::from_utf8_lossy(&done.stderr).into_owned())
}

fn promise<'a>(found: &'a Value, metric: &str) -> &'a Value {
    found["promises"].as_array().unwrap().iter().find(|of| of["metric"] == metric).unwrap()
}

#[test]
fn a_plan_is_compared_with_what_it_brings() {
    skip_without_fuse!();
    let pool = Mounted::on("a.img:2G");
    let row = |n: u64| format!("{n}: a row of a table, value {}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let text: String = (0..BYTES / 40).map(row).collect();
    fs::write(pool.at(FILE), &text.as_bytes()[..BYTES as usize]).unwrap();
    write_plan(&pool);

    let load = Load::start(&pool.at(FILE), &pool.at("count"));
    crate::common::mounted::until("work is counted", || pool.at("count").exists());
    let (status, before, messages) = verify(&pool);
    if messages.contains("cannot record") {
        eprintln!("SKIPPED verify: {messages}");
        return;
    }
    assert_eq!((status, &before["verdict"]), (0, &json!("not-applied")), "{before} {messages}");
    follows_schema("verify", before.clone());
    let state = &before["before"];
    assert_eq!(state["metrics"]["work_rate"].as_array().unwrap().len(), 10, "{state}");
    assert_eq!(state["rate"], json!({"command": "cat count"}));
    assert_eq!(state["bytes"], json!(BYTES));
    assert_eq!(state["share_of_pool"], json!(1.0), "{state}");
    for metric in
        ["read_p50_ns", "mean_latency_ns", "write_amplification", "vdev_write_bytes", "allocated_bytes"]
    {
        assert!(!state["metrics"][metric].as_array().unwrap().is_empty(), "{metric}: {state}");
    }
    let (reads, writes) =
        (state["mix"]["reads_s"].as_f64().unwrap(), state["mix"]["writes_s"].as_f64().unwrap());
    assert!((reads / writes / 4.0 - 1.0).abs() < 0.1, "{state}");
    drop(load);

    pool.run("apply plan.json --yes");
    let load = Load::start(&pool.at(FILE), &pool.at("count"));
    let (status, kept, messages) = verify(&pool);
    assert_eq!((status, &kept["verdict"]), (0, &json!("kept")), "{kept} {messages}");
    follows_schema("verify", kept.clone());
    let space = promise(&kept, "allocated_bytes");
    assert!(space["measured"]["change"].as_f64().unwrap() < -0.15, "{space}");
    let warnings = kept["warnings"].as_array().cloned().unwrap_or_default();
    assert!(!warnings.iter().any(|text| text.to_string().contains("128K")), "{warnings:?}");
    assert!(promise(&kept, "work_rate")["measured"]["ci95"].is_array(), "{kept}");
    assert_eq!(read(&pool, "plan.verification.json"), kept);

    // A promise that does not hold.
    let mut changed = kept;
    changed["before"]["metrics"]["allocated_bytes"] = json!([0.01]);
    let changed: Verification = serde_json::from_value(changed).unwrap();
    fs::write(pool.at("plan.verification.json"), serde_json::to_string(&changed).unwrap()).unwrap();
    let (status, broken, messages) = verify(&pool);
    assert_eq!((status, &broken["verdict"]), (1, &json!("broken")), "{broken} {messages}");
    drop(load);
    pool.run("undo plan.json --yes");
}

#[test]
fn a_verification_that_cannot_be_made_is_refused() {
    skip_without_fuse!();
    let pool = Mounted::on("a.img:2G");
    fs::write(pool.at(FILE), vec![1; 1 << 20]).unwrap();
    write_plan(&pool);
    let before = fs::read(pool.at("plan.json")).unwrap();
    let run = |words: &[&str]| {
        let done = pool.command("").arg("verify").arg("plan.json").args(words).output().unwrap();
        (done.status.code().unwrap(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (status, messages) = run(&["--for", "2s"]);
    assert!(status == 2 && messages.contains("record for 10 s or more"), "{status} {messages}");
    let (status, messages) = run(&["--work", "echo many"]);
    assert!(
        status == 1 && messages.contains("must print one number, but printed \"many\""),
        "{status} {messages}"
    );
    let (status, messages) = run(&["--before", "missing.parquet"]);
    assert!(status == 2 && messages.contains("leave out --before"), "{status} {messages}");
    pool.run("dataset set compression=gzip-9 tank");
    let (status, messages) = run(&["--before", "missing.parquet"]);
    assert!(status == 1 && messages.contains("missing.parquet"), "{status} {messages}");
    for output in ["--report", "-o"] {
        let (status, messages) = run(&[output, "plan.json", "--force"]);
        assert!(status == 2 && messages.contains("plan.json is the plan itself"), "{status} {messages}");
    }
    assert_eq!(fs::read(pool.at("plan.json")).unwrap(), before);

    let mut keep = read(&pool, "plan.json");
    keep["verdict"] = json!("keep");
    keep["roles"][0]["recommended"] = json!({});
    keep["roles"][1]["recommended"] = json!({});
    write(&pool, keep);
    let (status, messages) = run(&[]);
    assert!(status == 4 && messages.contains("recommends no change"), "{status} {messages}");
}
