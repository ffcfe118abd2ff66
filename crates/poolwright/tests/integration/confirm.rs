//! `poolwright confirm` as a user runs it: a real SQLite database with a plan's settings, and cleaning up after a failed
//! confirmation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::mounted::PATIENCE;
use crate::common::skip_without_fuse;

/// Updates and reads for a second, with durable transactions; prints their number.
const LOAD: &str = r#"python3 - <<'EOF'
import os, sqlite3, time
db = sqlite3.connect(os.environ["POOLWRIGHT_DIR"] + "/app.db", isolation_level=None)
db.execute("pragma synchronous=full")
assert db.execute("select count(*) from t").fetchone()[0] == 4000
done, end = 0, time.monotonic() + 1
while time.monotonic() < end:
    db.execute("update t set v = v || ? where k = ?", ("x", done * 37 % 4000))
    done += 1
print("work", done)
EOF"#;

/// A database, a plan for it, and a scratch directory.
struct TestDir {
    dir: tempfile::TempDir,
}

impl TestDir {
    fn new() -> TestDir {
        let test_dir = TestDir { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(test_dir.at("db")).unwrap();
        fs::create_dir(test_dir.at("scratch")).unwrap();
        let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('pragma journal_mode=wal'); \
                      db.execute('create table t (k integer primary key, v text)'); \
                      db.executemany('insert into t values (?, ?)', ((i, f'row {i} ' * 20) for i in range(4000))); db.commit()";
        let made =
            Command::new("python3").args(["-c", script]).arg(test_dir.at("db/app.db")).status().unwrap();
        assert!(made.success());
        test_dir.write(test_dir.plan());
        test_dir
    }

    /// Writes the plan as `tune` does.
    fn write(&self, plan: Value) {
        let plan: poolwright_plan::Plan = serde_json::from_value(plan).unwrap();
        fs::write(self.at("plan.json"), serde_json::to_string_pretty(&plan).unwrap()).unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// The fictitious plan, adapted to this database.
    fn plan(&self) -> Value {
        let text = include_str!("../../../render/tests/fixtures/plan.json");
        let mut plan: Value = serde_json::from_str(text).unwrap();
        let (dir, file) = (self.at("db"), self.at("db/app.db"));
        plan["subject"]["directory"] = json!(dir);
        plan["machine"]["arc_bytes"] = json!(64 << 20);
        plan["machine"]["device"] = json!({
            "profile": "measured", "read_latency_ns": 50_000, "write_latency_ns": 20_000, "flush_latency_ns": 90_000,
            "read_bytes_s": 2_000_000_000, "queue_depth": 32,
        });
        let role = &mut plan["roles"][0];
        (role["path"], role["paths"], role["files"]) = (json!(file), json!([file]), json!(1));
        role["place"] = json!({"mountpoint": dir, "separable": true});
        plan["roles"].as_array_mut().unwrap().truncate(1);
        plan
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_poolwright"));
        command.arg("confirm").args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("TMPDIR", self.at("scratch"));
        command
    }

    fn confirm(&self, arguments: &[&str]) -> Output {
        let mut all = [&["plan.json", "--scratch", "scratch", "--blocks", "2"], arguments].concat();
        if !arguments.contains(&"--limit") {
            all.extend(["--limit", "120s"]);
        }
        self.command(&all).output().unwrap()
    }

    /// Runs a confirmation that must fail with these fragments in its messages and leave nothing behind.
    fn fails(&self, arguments: &[&str], code: i32, expected: &[&str]) {
        let out = self.confirm(arguments);
        let messages = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{messages}");
        for fragment in expected {
            assert!(messages.contains(fragment), "{arguments:?} does not contain {fragment:?}: {messages}");
        }
        assert!(!messages.contains("/proc/") && !messages.contains("panicked"), "{messages}");
        self.nothing_left();
        assert!(!self.at("plan.confirmation.json").exists() && !self.at("report.html").exists());
    }

    /// A mount or a process that is left in this directory.
    fn left(&self) -> Option<String> {
        let here = self.at("");
        let here = here.to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        if let Some(line) = mounts.lines().find(|line| line.contains(here)) {
            return Some(line.to_owned());
        }
        fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let read = |name| fs::read(entry.path().join(name)).unwrap_or_default();
            let text = [read("cmdline"), read("environ")].concat();
            let text = String::from_utf8_lossy(&text).replace('\0', " ");
            let own = entry.file_name().to_str() == Some(&std::process::id().to_string());
            (!own && text.contains(here)).then_some(text)
        })
    }

    fn nothing_left(&self) {
        assert_eq!(self.left(), None);
        let scratch: Vec<_> = fs::read_dir(self.at("scratch")).unwrap().flatten().map(|e| e.path()).collect();
        assert!(scratch.is_empty(), "{scratch:?}");
    }
}

fn wait_for(path: &Path, child: &mut Child) {
    let began = Instant::now();
    while !path.exists() {
        if let Some(status) = child.try_wait().unwrap() {
            let mut messages = String::new();
            let _ = std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut messages);
            panic!("it ended ({status}): {messages}");
        }
        assert!(began.elapsed() < PATIENCE, "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_database_runs_under_three_settings_and_the_plan_gets_the_results() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let before = fs::read(test_dir.at("db/app.db")).unwrap();
    let log = test_dir.at("commands.log");
    let note = |what: &str| format!("echo {what} $POOLWRIGHT_SETTING $POOLWRIGHT_BLOCK >> {}", log.display());
    // A fake server; its stop command ends it and waits for its end.
    fs::write(test_dir.at("here"), "").unwrap();
    // The commands run in the user's directory.
    let start = format!("test -e here && {}; sleep 600 & echo $! > $POOLWRIGHT_SCRATCH/pid", note("start"));
    let stop = format!(
        "{}; p=$(cat $POOLWRIGHT_SCRATCH/pid); kill $p; while kill -0 $p; do sleep 0.05; done",
        note("stop")
    );
    let out = test_dir
        .confirm(&["--start", &start, "--load", LOAD, "--stop", &stop, "--settle", "100ms", "--json"]);
    let messages = String::from_utf8_lossy(&out.stderr);
    let found: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {messages}"));
    let found = crate::common::follows_schema("confirm", found);
    assert!(
        messages.contains("6 trials, each on a copy of") && messages.contains("trial 6 of 6"),
        "{messages}"
    );
    test_dir.nothing_left();
    assert_eq!(fs::read(test_dir.at("db/app.db")).unwrap(), before, "the original is unchanged");
    let expected = "start today 1\nstop today 1\nstart recommended 1\nstop recommended 1\nstart runner-up 1\nstop runner-up 1\n\
                    start recommended 2\nstop recommended 2\nstart runner-up 2\nstop runner-up 2\nstart today 2\nstop today 2\n";
    assert_eq!(fs::read_to_string(&log).unwrap(), expected);

    assert_eq!((found["work"].as_str(), found["failed_trials"].as_u64()), (Some("stated"), Some(0)));
    assert_eq!(found["commands"]["load"], LOAD);
    let settings = found["settings"].as_array().unwrap();
    let names: Vec<&str> = settings.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["today", "recommended", "runner-up"]);
    assert_eq!(settings[1]["datasets"][0]["settings"]["recordsize"], "16K");
    for setting in settings {
        assert_eq!(setting["blocks"], 2);
        for metric in ["work_rate", "allocated_bytes", "vdev_write_bytes", "cpu_ns_per_op"] {
            let median = setting["metrics"][metric]["median"].as_f64();
            assert!(median > Some(0.0), "{metric}: {setting}");
        }
        assert!(
            setting["metrics"]["work_rate"]["median"].as_f64() > Some(5.0),
            "transactions, not runs: {setting}"
        );
    }
    assert_eq!(settings[1]["changes"]["objective"]["pairs"], 2);
    assert!(settings[1]["predicted"]["allocated_bytes"]["change"].as_f64() < Some(0.0));
    // The settings have an effect: another record size and codec take a different amount of space.
    let space = settings[1]["changes"]["allocated_bytes"]["change"].as_f64().unwrap();
    assert!(space.abs() > 0.05, "{}", settings[1]);
    assert!(found["warnings"].to_string().contains("the load takes 1."), "{found}");

    let verdict = found["verdict"].as_str().unwrap();
    assert_eq!(
        out.status.code(),
        Some(if settings_better(settings) { 0 } else { 4 }),
        "{verdict}: {messages}"
    );
    let page = fs::read_to_string(test_dir.at("report.html")).unwrap();
    assert!(page.contains("in this test: objective") && page.contains("How it was run"));
    let kept = fs::read(test_dir.at("plan.confirmation.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&kept).unwrap(), found);
}

fn settings_better(settings: &[Value]) -> bool {
    settings.iter().any(|s| s["changes"]["objective"]["verdict"] == "better")
}

#[test]
fn a_role_in_a_directory_of_its_own_has_a_dataset_there() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    fs::create_dir(test_dir.at("db/log")).unwrap();
    fs::write(test_dir.at("db/log/0001"), vec![7; 1 << 20]).unwrap();
    let mut plan = test_dir.plan();
    let mut role = plan["roles"][0].clone();
    let path = test_dir.at("db/log/0001");
    (role["role"], role["path"], role["paths"]) = (json!("wal"), json!(path), json!([path]));
    role["place"]["mountpoint"] = json!(test_dir.at("db-wal"));
    (role["recommended"], role["gain"]) = (json!({"logbias": "throughput"}), json!({}));
    plan["roles"].as_array_mut().unwrap().push(role);
    test_dir.write(plan);
    let log = test_dir.at("mounts");
    let load = format!(
        "cd $POOLWRIGHT_DIR; findmnt -no TARGET --target log >> {0}; findmnt -no TARGET --target app.db >> {0}; \
         dd if=/dev/zero of=log/0002 bs=64k count=16 conv=fsync",
        log.display()
    );
    let out = test_dir.confirm(&["--load", &load, "--json"]);
    let messages = String::from_utf8_lossy(&out.stderr);
    let found: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {messages}"));
    let found = crate::common::follows_schema("confirm", found);
    test_dir.nothing_left();
    let points = fs::read_to_string(&log).unwrap();
    let points: Vec<&str> = points.lines().collect();
    assert!(points[0].ends_with("/datasets/db/log") && points[1].ends_with("/datasets/db"), "{points:?}");
    let datasets = &found["settings"][1]["datasets"];
    assert_eq!(datasets[1]["place"], "log");
    assert_eq!(datasets[1]["settings"]["logbias"], "throughput");
    assert_eq!(datasets[0]["settings"]["recordsize"], "16K");
    assert_eq!(found["work"], "run");
}

#[test]
fn failing_commands_are_named_with_the_end_of_their_log() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let start = "echo cannot find my configuration; exit 3";
    test_dir.fails(
        &["--start", start, "--load", "true", "--stop", "true"],
        1,
        &["the start command failed (exit status: 3)", "cannot find my configuration"],
    );
    test_dir.fails(
        &["--load", "echo no such table >&2; false"],
        1,
        &["the load command failed (exit status: 1)", "no such table"],
    );
    test_dir.fails(
        &["--start", "sleep 600 &", "--load", "true", "--stop", "true"],
        1,
        &["sleep (process ", "still running after the stop command"],
    );
}

#[test]
fn a_load_over_its_time_limit_is_ended() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    test_dir.fails(
        &["--load", "echo working; sleep 600", "--limit", "1s"],
        1,
        &["the load command was still running after 1 s, its time limit", "working"],
    );
}

#[test]
fn a_failed_trial_of_a_later_block_is_left_out() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let load = "test $POOLWRIGHT_BLOCK$POOLWRIGHT_SETTING != 2runner-up && head -c 1M /dev/urandom > $POOLWRIGHT_DIR/new && sync";
    let out = test_dir.confirm(&["--load", load, "--json"]);
    let messages = String::from_utf8_lossy(&out.stderr);
    let found: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {messages}"));
    let found = crate::common::follows_schema("confirm", found);
    test_dir.nothing_left();
    assert!(messages.contains("warning: the trial failed: the load command failed"), "{messages}");
    assert_eq!(
        (found["failed_trials"].as_u64(), found["settings"][2]["blocks"].as_u64()),
        (Some(1), Some(1))
    );
    assert!(found["warnings"].to_string().contains("block 2, runner-up"), "{found}");
    assert_eq!(found["settings"][1]["changes"]["objective"]["pairs"], 2);
}

#[test]
fn a_database_in_use_is_refused() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let open = fs::File::options().append(true).open(test_dir.at("db/app.db")).unwrap();
    test_dir.fails(
        &["--load", "true"],
        3,
        &["refused", "app.db is open for writing", "\nhint: stop the database"],
    );
    drop(open);
}

#[test]
fn a_link_to_another_users_directory_is_refused() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    if std::os::unix::fs::chown(test_dir.at("db"), Some(12345), None).is_err() {
        eprintln!("not tested: only root can give a directory away");
        return;
    }
    fs::create_dir(test_dir.at("private")).unwrap();
    std::os::unix::fs::symlink(test_dir.at("private"), test_dir.at("db/space")).unwrap();
    test_dir.fails(
        &["--load", "true"],
        3,
        &["refused", "db/space leads to ", "belongs to user 0", "\nhint: replace the link"],
    );
    test_dir.nothing_left();
}

#[test]
fn an_invalid_plan_is_refused_before_anything_runs() {
    let test_dir = TestDir::new();
    fs::write(test_dir.at("plan.json"), r#"{"format": "something else"}"#).unwrap();
    test_dir.fails(&["--load", "true"], 2, &["is not a plan: "]);
    let mut plan = test_dir.plan();
    plan["version"] = json!(99);
    fs::write(test_dir.at("plan.json"), plan.to_string()).unwrap();
    test_dir.fails(&["--load", "true"], 1, &["format version 99", "hint: use the release that wrote it"]);
    test_dir.write(test_dir.plan());
    test_dir.fails(&["--load", "true", "--start", "true"], 2, &["--stop"]);
    test_dir.fails(&["--load", "true", "--dir", "nowhere"], 1, &["nowhere", "with --dir"]);
}

/// Starts a confirmation with an endless load and server, and waits until both run.
fn endless(test_dir: &TestDir) -> Child {
    let ready = test_dir.at("ready");
    let start = "sleep 600 & sleep 600 & true".to_owned();
    let load = format!("touch {}; sleep 600", ready.display());
    let mut child = test_dir
        .command(&["plan.json", "--scratch", "scratch", "--start", &start, "--load", &load, "--stop", "true"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&ready, &mut child);
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn ctrl_c_during_the_load_leaves_nothing() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let child = endless(&test_dir);
    signal(&child, "-INT");
    let out = child.wait_with_output().unwrap();
    let messages = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(130), "{messages}");
    assert!(
        messages.contains("interrupted") && messages.contains("plan.confirmation.json was not written"),
        "{messages}"
    );
    test_dir.nothing_left();
    assert!(!test_dir.at("plan.confirmation.json").exists() && !test_dir.at("report.html").exists());
}

#[test]
fn a_kill_during_the_load_leaves_no_process_and_no_mount() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let mut child = endless(&test_dir);
    signal(&child, "-KILL");
    child.wait().unwrap();
    let began = Instant::now();
    while let Some(left) = test_dir.left() {
        assert!(began.elapsed() < PATIENCE, "still there: {left}");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The next confirmation removes the files.
    test_dir.fails(&["--load", "false"], 1, &["the load command failed"]);
}
