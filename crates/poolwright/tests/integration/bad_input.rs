//! Errors of the user and failures of the machine: each has a clear message and its exit code, leaves nothing behind, and changes no
//! file of the user.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Op, Trace};

const BIN: &str = env!("CARGO_BIN_EXE_poolwright");
const PAGE: u64 = 16384;

fn poolwright(args: &[&str]) -> Output {
    Command::new(BIN).args(args).stdin(Stdio::null()).output().expect("poolwright starts")
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn refused(args: &[&str], code: i32, fragments: &[&str]) {
    let output = poolwright(args);
    let text = messages(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    for fragment in fragments {
        assert!(text.contains(fragment), "{args:?} does not contain {fragment:?}: {text}");
    }
    assert!(!text.contains("backtrace") && !text.contains("panicked"), "{text}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// A table of 4 MiB and a trace of reads, writes and syncs on it over `seconds`.
fn database(dir: &Path, seconds: u64) -> (PathBuf, PathBuf) {
    let data = dir.join("db");
    std::fs::create_dir_all(&data).unwrap();
    let table = data.join("table.ibd");
    let content: String = (0..200_000u32).map(|i| format!("{:06} customer {:03}; ", i, i % 997)).collect();
    // The length is not a multiple of the sector size, as in some databases; the tail is read.
    let size = (4 << 20) + 1234;
    std::fs::write(&table, &content.as_bytes()[..size]).unwrap();
    std::fs::write(data.join("ibdata1"), vec![7u8; 65536]).unwrap();
    let mut events = Vec::new();
    for i in 0..seconds * 100 {
        let op = [Op::Read, Op::Write, Op::Read, Op::Fsync][i as usize % 4];
        let len = if op == Op::Fsync { 0 } else { PAGE };
        let offset = i * 37 % 256 * PAGE;
        let t_ns = i * 10_000_000;
        events.push(Event {
            t_ns,
            dur_ns: 50_000,
            op,
            file: 0,
            offset,
            len,
            pid: 1,
            tid: 1,
            flags: Flags::default(),
            gap: None,
        });
    }
    events[0].offset = 4 << 20;
    events[0].len = 1234;
    let file =
        File { path: text(&table).into(), size: size as u64, role: Some(Role::Data), ..File::default() };
    let mut trace = Trace { files: vec![file], events, ..Trace::default() };
    trace.meta.duration_ns = seconds * 1_000_000_000;
    trace.meta.subject = format!("dir:{}", data.display());
    let path = dir.join("t.parquet");
    trace.save(&path).unwrap();
    (data, path)
}

/// Name → contents of every file below a directory.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            all.extend(snapshot(&entry.path()));
        } else {
            all.insert(entry.path(), std::fs::read(entry.path()).unwrap());
        }
    }
    all
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn paths_that_are_not_there_or_hold_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (plan, report) = (dir.path().join("p.json"), dir.path().join("r.html"));
    let outputs = ["--plan", text(&plan), "--report", text(&report)];
    let tune =
        |target: &str, fragments: &[&str]| refused(&[&["tune", target], &outputs[..]].concat(), 1, fragments);
    tune("/no/such/database", &["/no/such/database", "No such file"]);
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    tune(text(&empty), &["is empty"]);
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    tune(text(&file), &["is a file"]);
    refused(&["estimate", "/no/such/file"], 1, &["/no/such/file"]);
    refused(&["replay", "/no/such/trace"], 1, &["/no/such/trace"]);
    refused(&["trace", "show", "/no/such/trace"], 1, &["/no/such/trace"]);
    assert!(!plan.exists() && !report.exists());
}

#[test]
fn wrong_arguments_are_usage_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = database(dir.path(), 1);
    let (data, trace) = (text(&data), text(&trace));
    refused(&["tune", data, "--goal", "cheap"], 2, &["cheap", "balanced"]);
    refused(&["tune", data, "--trace", trace, "-o", "recordsize=3K"], 2, &["recordsize=3K", "power of two"]);
    refused(&["tune", data, "--trace", trace, "-o", "colour=red"], 2, &["colour", "recordsize"]);
    refused(&["tune", data, "--for", "soon"], 2, &["soon"]);
    refused(&["tune", data, "--arc", "1M"], 2, &["64M"]);
    refused(&["replay", trace, "-o", "disk:recordsize=16K"], 2, &["disk", "wal"]);
    refused(&["replay", trace, "-o", "compression=lzma"], 2, &["lzma", "zstd"]);
    refused(&["replay", trace, "--device", "floppy"], 2, &["floppy", "nvme"]);
    refused(&["mount", "tank", data, "--device", "floppy"], 2, &["floppy", "sata-ssd"]);
    refused(&["mount", "tank", data, "--device", "hdd,cache0"], 2, &["cache0", "NAME=KIND"]);
    refused(&["replay", trace, "--ashift", "20"], 2, &["20"]);
    refused(&["mount", "tank", data, "--tunable", "speed=1"], 2, &["speed", "dbuf_cache_max_bytes"]);
    refused(&["no-such-verb"], 2, &["no-such-verb"]);
}

#[test]
fn foreign_and_truncated_traces() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = database(dir.path(), 1);
    let foreign = dir.path().join("foreign.parquet");
    std::fs::write(&foreign, b"PAR1 this is no trace PAR1").unwrap();
    refused(&["replay", text(&foreign)], 1, &["foreign.parquet"]);
    refused(&["tune", text(&data), "--trace", text(&foreign)], 1, &["foreign.parquet"]);
    let whole = std::fs::read(&trace).unwrap();
    let cut = dir.path().join("cut.parquet");
    std::fs::write(&cut, &whole[..whole.len() / 3]).unwrap();
    refused(&["replay", text(&cut)], 1, &["cut.parquet"]);
    assert!(!PathBuf::from("plan.json").exists());
}

#[test]
fn a_recording_without_io_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (data, _) = database(dir.path(), 1);
    let idle = dir.path().join("idle.parquet");
    Trace { files: vec![], ..Trace::default() }.save(&idle).unwrap();
    let before = snapshot(&data);
    refused(&["tune", text(&data), "--trace", text(&idle)], 1, &["no reads or writes", "--for"]);
    refused(&["replay", text(&idle)], 1, &["nothing to replay"]);
    assert_eq!(snapshot(&data), before);
}

#[test]
fn without_the_privilege_the_other_ways_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (data, _) = database(dir.path(), 1);
    // If this test runs as root, it gives up its privileges, so it copies the program to a directory that every user can access.
    // A child process makes the copy: a child of another test could inherit a writable descriptor of the copy, which then could not
    // be executed.
    let program = dir.path().join("poolwright");
    assert!(Command::new("cp").args([Path::new(BIN), &program]).status().unwrap().success());
    for path in [dir.path(), &data, &program] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o777)).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let root = status.lines().any(|l| l.starts_with("Uid:\t0\t"));
    let mut command = if root {
        let mut c = Command::new("setpriv");
        c.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
            "--",
        ]);
        c.arg(&program);
        c
    } else {
        Command::new(&program)
    };
    let args = ["tune", text(&data), "--for", "1s", "--scratch", text(&out)];
    let output = command.args(args).current_dir(&out).stdin(Stdio::null()).output().unwrap();
    let text = messages(&output);
    assert!(matches!(output.status.code(), Some(1 | 3)), "{:?}: {text}", output.status);
    assert!(text.contains("CAP_BPF") && text.contains("trace import"), "{text}");
    assert!(is_empty(&out), "something was left behind");
}

#[test]
fn a_full_scratch_directory_is_seen_before_the_work() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = database(dir.path(), 1);
    let small = dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs", text(&small)]).output();
    if !mounted.is_ok_and(|o| o.status.success()) {
        eprintln!(
            "SKIPPED a_full_scratch_directory_is_seen_before_the_work: mounting a small tmpfs is not permitted"
        );
        return;
    }
    let replay = poolwright(&["replay", text(&trace), "--scratch", text(&small), "--device", "none"]);
    let outputs = [dir.path().join("p.json"), dir.path().join("r.html")];
    let args = ["tune", text(&data), "--trace", text(&trace), "--scratch", text(&small), "--device", "none"];
    let tune =
        poolwright(&[&args[..], &["--plan", text(&outputs[0]), "--report", text(&outputs[1])]].concat());
    let left = is_empty(&small);
    // The file system for the plan is full too.
    std::fs::write(small.join("filler"), vec![1u8; 9 << 20]).ok();
    let full =
        poolwright(&["record", "--dir", text(&data), "--for", "1s", "-o", text(&small.join("t.parquet"))]);
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
    for output in [replay, tune] {
        assert_eq!(output.status.code(), Some(1), "{}", messages(&output));
        assert!(
            messages(&output).contains("MiB free") && messages(&output).contains("--scratch"),
            "{}",
            messages(&output)
        );
    }
    assert!(left, "something was left in the scratch directory");
    assert!(outputs.iter().all(|p| !p.exists()));
    assert_eq!(full.status.code(), Some(1), "{}", messages(&full));
}

#[test]
fn a_killed_trial_is_named_and_a_killed_tool_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let (_, trace) = database(dir.path(), 30);
    let scratch = dir.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let start = || {
        // A disk's waits take their time only on the real clock.
        let args = [
            "replay",
            text(&trace),
            "--scratch",
            text(&scratch),
            "--device",
            "hdd",
            "--clock",
            "real",
            "--warm",
            "0",
        ];
        Command::new(BIN)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // The child is killed: the program reports it and exits with 1.
    let tool = start();
    kill(trial_of(tool.id()), "KILL");
    let output = tool.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", messages(&output));
    assert!(
        messages(&output).contains("the trial failed") && messages(&output).contains("signal: 9"),
        "{}",
        messages(&output)
    );
    assert!(is_empty(&scratch));
    // The program is interrupted: exit code 130, and nothing is left.
    let tool = start();
    let trial = trial_of(tool.id());
    kill(tool.id(), "INT");
    let output = tool.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", messages(&output));
    assert!(is_empty(&scratch));
    assert!(gone(trial));
    // The program is killed: its trial ends too, and the next run removes its scratch directory.
    let mut tool = start();
    let trial = trial_of(tool.id());
    kill(tool.id(), "KILL");
    tool.wait().unwrap();
    assert!(gone(trial), "the trial outlived its parent");
    assert!(!is_empty(&scratch));
    let next = poolwright(&["replay", text(&trace), "--scratch", text(&scratch), "--device", "none"]);
    assert!(next.status.success(), "{}", messages(&next));
    assert!(is_empty(&scratch));
}

fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap().success());
}

/// Waits for the trial that the program starts, and returns its process id.
fn trial_of(parent: u32) -> u32 {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let children =
            std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        if let Some(pid) = children.split_whitespace().next() {
            std::thread::sleep(Duration::from_millis(300)); // until the replay has started
            return pid.parse().unwrap();
        }
        assert!(Instant::now() < deadline, "no trial was started");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn gone(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(300);
    let there = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while there() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    !there()
}

#[test]
fn tune_recommends_or_keeps_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = database(dir.path(), 20);
    let before = snapshot(&data);
    let (plan, report) = (dir.path().join("plan.json"), dir.path().join("report.html"));
    let args =
        ["tune", text(&data), "--trace", text(&trace), "--budget", "15s", "--device", "none", "--json"];
    let output = poolwright(&[&args[..], &["--plan", text(&plan), "--report", text(&report)]].concat());
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", messages(&output)));
    let json = crate::common::follows_schema("plan", json);
    let expected = if json["verdict"] == "keep" { 4 } else { 0 };
    assert_eq!(output.status.code(), Some(expected), "{}", messages(&output));
    // A slow machine may complete only one or two trials within the budget.
    let (trials, seconds) = (json["trials"].as_u64().unwrap(), json["seconds"].as_f64().unwrap());
    assert!(trials > 5 || seconds > 15.0, "{trials} trials in {seconds} s");
    assert_eq!(json["subject"]["database"].as_str().map(|d| d.starts_with("MariaDB")), Some(true));
    let role = json["roles"].as_array().unwrap().iter().find(|r| r["role"] == "data").unwrap();
    assert!(role["evidence"].as_array().unwrap().iter().any(|e| e["outcome"] == "current"));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&std::fs::read(&plan).unwrap()).unwrap(), json);
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.to_lowercase().starts_with("<!doctype html>") && html.contains("recordsize"));
    assert_eq!(snapshot(&data), before, "a file of the database was changed");
}
