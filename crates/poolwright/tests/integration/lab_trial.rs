//! `poolwright trial` with a trial of the lab: its measures, and cleaning up after failures.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_lab::Outcome;
use serde_json::{Value, json};

fn unable() -> Option<String> {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.err().map(|why| format!("/dev/fuse cannot be opened: {why}"))
}

macro_rules! skip_without_fuse {
    () => {
        if let Some(why) = unable() {
            eprintln!("skipped: {why}");
            return;
        }
    };
}

/// A directory for one trial.
struct TestDir {
    dir: tempfile::TempDir,
    scratch: PathBuf,
}

impl TestDir {
    fn new() -> TestDir {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        TestDir { dir, scratch }
    }

    fn spec(&self, changes: Value) -> PathBuf {
        let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/lab-driver.py");
        let mut spec = json!({
            "kind": "lab", "key": {"study": "s", "case": {"recordsize": "16K"}, "block": 0}, "driver": driver,
            "parameters": {}, "target": {"pool": {"vdevs": ["d0:1G"], "arc": "64M"}},
            "datasets": {"db": {"recordsize": "16K", "compression": "lz4"}},
            "phases": [phase("load")], "scratch": self.scratch, "cache": self.dir.path().join("cache"),
            "tools": self.dir.path(), "seed": 7,
        });
        for (name, value) in changes.as_object().unwrap() {
            spec[name] = value.clone();
        }
        let spec = crate::common::follows_schema("lab-trial-spec", spec);
        let path = self.dir.path().join("spec.json");
        fs::write(&path, spec.to_string()).unwrap();
        path
    }

    fn start(&self, changes: Value) -> Child {
        Command::new(assert_cmd::cargo::cargo_bin!("poolwright"))
            .arg("trial")
            .arg(self.spec(changes))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn works(&self, changes: Value) -> Outcome {
        let out = self.start(changes).wait_with_output().unwrap();
        let messages = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{messages}");
        self.nothing_left();
        serde_json::from_value(crate::common::json_output("lab-trial-result", &out.stdout)).unwrap()
    }

    /// Runs a trial that must fail; the last line of its messages must contain these fragments.
    fn fails(&self, changes: Value, fragments: &[&str]) {
        let out = self.start(changes).wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(1));
        self.says(&String::from_utf8_lossy(&out.stderr), fragments);
        self.nothing_left();
    }

    fn says(&self, stderr: &str, fragments: &[&str]) {
        let reason = stderr.lines().last().unwrap_or_default();
        for fragment in fragments {
            assert!(reason.contains(fragment), "does not contain {fragment:?}: {stderr}");
        }
    }

    fn mounted(&self) -> bool {
        let here = self.dir.path().to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.lines().any(|line| line.contains(here) && line.contains("fuse"))
    }

    /// The command line of a process in this directory.
    fn running(&self) -> Option<String> {
        let here = self.dir.path().to_str().unwrap();
        fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            command.contains(here).then_some(command)
        })
    }

    /// Checks that no mount, no process and no pool is left.
    fn nothing_left(&self) {
        assert!(!self.mounted());
        assert_eq!(self.running(), None);
        assert!(!self.scratch.join("target").exists());
    }
}

fn phase(name: &str) -> Value {
    json!({"name": name, "limit_ns": 600_000_000_000u64})
}

/// Reads the trial's messages until a line contains the fragment.
fn wait_for(child: &mut Child, fragments: &str) -> BufReader<std::process::ChildStderr> {
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(fragments) {
        line.clear();
        assert!(messages.read_line(&mut line).unwrap() > 0, "it ended without saying {fragments}");
    }
    messages
}

fn end_of(mut child: Child, mut messages: BufReader<std::process::ChildStderr>) -> (Option<i32>, String) {
    let mut rest = String::new();
    messages.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap().code(), rest)
}

#[test]
fn a_complete_trial() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let mut load = phase("load");
    load["record"] = json!(true);
    load["at"] = json!([{"progress": 0.5, "set": {"db.compression": "off"}}]);
    let mut check = phase("check");
    check["cold"] = json!(true);
    let outcome = test_dir.works(json!({
        "parameters": {"pieces": 256, "pause": 0.0125, "half_way": 5},
        "datasets": {"db": {"recordsize": "16K", "compression": "lz4"}, "wal": {}},
        "phases": [load, check],
    }));
    let (load, check) = (&outcome.phases[0], &outcome.phases[1]);
    let value = |name: &str| load.measures.get(name).unwrap_or_else(|| panic!("no {name}: {load:?}")).value;
    let bytes = f64::from(256 * (64 << 10));
    assert!((8.2..600.0).contains(&value("wall_s")), "{}", value("wall_s"));
    assert!((value("rate") * value("wall_s") - 256.0).abs() < 1.0);
    // A record of 16K takes 8K until half of the work is done, then 16K.
    assert!((0.95..1.05).contains(&(value("logical.db") / bytes)), "{}", value("logical.db"));
    let share = value("allocated.db") / bytes;
    assert!((0.65..0.9).contains(&share), "{share}");
    assert!(value("logical") >= value("logical.db") + value("logical.wal"));
    assert!(value("zil_commits") >= 1.0);
    assert!(value("synced_write_bytes") >= value("allocated.db") * 0.9);
    assert!(value("engine_s") > 0.0 && value("user_s") > 0.0);
    assert!(value("host_cpu") > 0.0 && value("arc_size") > 0.0);
    assert_eq!(load.changes.len(), 1);
    assert_eq!(load.changes[0].1, "db.compression=off");
    assert!(load.changes[0].0 > 1.0 && load.changes[0].0 < value("wall_s"));
    assert_eq!(load.histograms["db"]["write"].iter().map(|(_, calls)| calls).sum::<u64>(), 256);
    assert_eq!(load.histograms["db"]["write"][0].0, 64 << 10);
    assert!(load.histograms["wal"].is_empty());
    assert_eq!((value("write_call_count.db"), value("write_call_count")), (256.0, 256.0));
    assert_eq!((value("write_call_size.db"), value("write_call_size")), (65_536.0, 65_536.0));
    assert!(value("write_call_p50.db") > 0.0 && value("write_call_p99.db") >= value("write_call_p50.db"));
    assert!((0.0..value("wall_s")).contains(&value("write_call_s.db")), "{}", value("write_call_s.db"));
    assert!(value("vdev_wait") > 0.0);
    assert!(!load.measures.contains_key("write_call_s.wal") && !check.measures.contains_key("read_call_s"));
    for name in ["rate", "done", "arc_size", "vdev_write_bytes", "driver_cpu", "engine_cpu", "host_cpu"] {
        assert!(load.series.get(name).is_some_and(|series| series.points.len() >= 2), "{name}");
    }
    assert_eq!(load.log.last().unwrap().1, "load done");
    // A cold phase reads all data from the vdev once.
    let value = |name: &str| check.measures[name].value;
    assert!(value("vdev_read_bytes") >= share * bytes * 0.95, "{}", value("vdev_read_bytes"));
    assert_eq!((value("pieces_per_s"), value("read_p99"), value("read_count")), (12.5, 3.0, 64.0));
    assert!(check.histograms.is_empty());
    assert!(outcome.versions["openzfs"].starts_with("2."), "{:?}", outcome.versions);
    assert_eq!(outcome.versions["lab-driver"], "1");
    assert!(outcome.seconds > 8.2);
}

#[test]
fn a_trial_on_a_directory() {
    let test_dir = TestDir::new();
    let target = json!({"directory": test_dir.scratch});
    let mut check = phase("check");
    check["cold"] = json!(true);
    let outcome = test_dir.works(json!({"target": target, "phases": [phase("load"), check]}));
    let measures = &outcome.phases[0].measures;
    assert_eq!(measures["logical.db"].value, f64::from(64 * (64 << 10)));
    // If the host's file system compresses, the data takes a quarter of the space.
    assert!(measures["allocated.db"].value >= measures["logical.db"].value * 0.2);
    assert!(!measures.contains_key("arc_size") && !measures.contains_key("engine_s"));
    let change = json!([{"progress": 0.1, "set": {"db.compression": "off"}}]);
    let mut load = phase("load");
    load["at"] = change;
    test_dir.fails(json!({"target": target, "phases": [load]}), &["compression=off", "no properties"]);
}

#[test]
fn cpu_of_those_that_ended_counts() {
    let test_dir = TestDir::new();
    let target = json!({"directory": test_dir.scratch});
    let outcome = test_dir.works(json!({"target": target, "phases": [phase("burn")]}));
    let value = |name: &str| outcome.phases[0].measures[name].value;
    let used = value("user_s") + value("system_s");
    assert!((1.15..2.5).contains(&used), "{used}");
}

#[test]
fn drivers_that_misbehave() {
    let test_dir = TestDir::new();
    let target = json!({"directory": test_dir.scratch});
    let with = |what: &str| json!({"target": target, "parameters": {"do": what}});
    test_dir
        .fails(with("die"), &["phase load", "lab-driver.py", "exit status: 1", "no more ideas; think again"]);
    test_dir.fails(with("nonsense"), &["phase load", "\"50% done!\"", "docs/lab.md"]);
    test_dir.fails(with("leave"), &["left sleep (process"]);
    let mut short = phase("load");
    short["limit_ns"] = json!(2_000_000_000u64);
    let mut hang = with("hang");
    hang["phases"] = json!([short]);
    test_dir.fails(hang, &["exceeded the phase's limit of 2 s"]);
}

/// SIGTERM is ignored, SIGKILL is not.
#[test]
fn a_driver_that_ignores_signals() {
    let test_dir = TestDir::new();
    let mut short = phase("load");
    short["limit_ns"] = json!(10_000_000_000u64); // long enough for the driver to ignore SIGTERM
    let target = json!({"directory": test_dir.scratch});
    let start = Instant::now();
    test_dir
        .fails(json!({"target": target, "parameters": {"do": "stubborn"}, "phases": [short]}), &["limit"]);
    assert!(start.elapsed() > Duration::from_secs(20));
}

#[test]
fn a_missing_driver() {
    let test_dir = TestDir::new();
    let target = json!({"directory": test_dir.scratch});
    test_dir.fails(
        json!({"target": target, "driver": "/nonexistent/driver"}),
        &["no such driver: /nonexistent/driver"],
    );
}

#[test]
fn signals_clear_everything_up() {
    skip_without_fuse!();
    for target in [json!({"pool": {"vdevs": ["d0:1G"], "arc": "64M"}}), json!(null)] {
        let test_dir = TestDir::new();
        let target = if target.is_null() { json!({"directory": test_dir.scratch}) } else { target };
        let mut child = test_dir.start(json!({"target": target, "parameters": {"pause": 0.5}}));
        let messages = wait_for(&mut child, "\"done\":2.0");
        let pid = rustix::process::Pid::from_child(&child);
        // A process group often receives a signal twice.
        for _ in 0..3 {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        }
        let (code, _) = end_of(child, messages);
        assert_eq!(code, Some(130));
        test_dir.nothing_left();
    }
}

/// If the trial is killed, the kernel signals its children, which clean up.
#[test]
fn a_trial_that_is_killed() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let mut child = test_dir.start(json!({"parameters": {"pause": 0.5}}));
    let messages = wait_for(&mut child, "\"done\":2.0");
    child.kill().unwrap();
    drop(messages);
    child.wait().unwrap();
    let start = Instant::now();
    while (test_dir.mounted() || test_dir.running().is_some()) && start.elapsed() < Duration::from_secs(300) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!test_dir.mounted());
    assert_eq!(test_dir.running(), None);
}

#[test]
fn a_mount_that_is_killed() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let mut child = test_dir.start(json!({"parameters": {"pause": 0.5}}));
    let messages = wait_for(&mut child, "\"done\":2.0");
    let owner = owner_of(&test_dir);
    let pid = rustix::process::Pid::from_raw(owner).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let (code, rest) = end_of(child, messages);
    assert_eq!(code, Some(1));
    test_dir.says(&rest, &["phase load", "the mount process", "signal: 9"]);
    test_dir.nothing_left();
}

/// The process that has the pool open.
fn owner_of(test_dir: &TestDir) -> i32 {
    let here = test_dir.scratch.join("target/root");
    let found = fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).into_owned();
        let ours = command.contains(here.to_str()?) && command.contains("\0mount\0");
        if ours { entry.file_name().to_str()?.parse().ok() } else { None }
    });
    found.expect("there is a mount process")
}

#[test]
fn a_full_scratch_directory() {
    skip_without_fuse!();
    let mut test_dir = TestDir::new();
    let mount = |arguments: &[&str]| Command::new("mount").args(arguments).arg(&test_dir.scratch).status();
    if !mount(&["-t", "tmpfs", "-o", "size=96M", "poolwright-test"]).is_ok_and(|status| status.success()) {
        eprintln!("skipped: a small file system cannot be mounted");
        return;
    }
    let small = test_dir.scratch.clone();
    test_dir.scratch = small.join("s");
    fs::create_dir(&test_dir.scratch).unwrap();
    let out = test_dir.start(json!({"parameters": {"do": "fill"}})).wait_with_output().unwrap();
    test_dir.nothing_left();
    let left: Vec<_> = fs::read_dir(&test_dir.scratch).unwrap().flatten().map(|entry| entry.path()).collect();
    let unmounted = Command::new("umount").arg(&small).status().unwrap();
    assert_eq!(out.status.code(), Some(1));
    test_dir.says(&String::from_utf8_lossy(&out.stderr), &["the mount process", "No space left on device"]);
    assert!(left.iter().all(|path| path.ends_with("log") || path.ends_with("driver")), "{left:?}");
    assert!(unmounted.success());
}

#[test]
fn vdevs_that_make_no_sense() {
    let test_dir = TestDir::new();
    let target = json!({"pool": {"vdevs": ["mirror"]}});
    test_dir.fails(json!({ "target": target }), &["cannot create the pool on mirror"]);
}
