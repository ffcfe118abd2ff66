//! `poolwright lab` as a user runs it, with files instead of a database.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use poolwright_lab::{Store, Trial, TrialKey};
use serde_json::Value;

const SMOKE: &str = include_str!("../fixtures/smoke.toml");

/// A directory with the campaign `smoke` and a scratch directory.
struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Lab {
        let lab = Lab(tempfile::tempdir().unwrap());
        lab.campaign(SMOKE);
        for dir in ["s", "data"] {
            std::fs::create_dir(lab.at(dir)).unwrap();
        }
        lab
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn campaign(&self, text: &str) {
        std::fs::write(self.at("smoke.toml"), text).unwrap();
    }

    fn root(&self) -> PathBuf {
        self.at("s")
            .canonicalize()
            .unwrap()
            .join(format!("poolwright-lab.{}", rustix::process::getuid().as_raw()))
    }

    fn plain(&self, line: &str) -> std::process::Command {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("poolwright"));
        command.current_dir(self.0.path()).env("POOLWRIGHT_HOME", assets());
        command.arg("lab").args(line.split_whitespace());
        command
    }

    /// Runs `lab run smoke.toml` with a directory as the target; returns the exit code, the messages and the JSON.
    fn run(&self, more: &str) -> (Option<i32>, String, Value) {
        let done = self.plain(&run_line(more)).output().unwrap();
        let messages = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!messages.contains("panicked") && !messages.contains("internal error"), "{messages}");
        let summary = match done.stdout.is_empty() {
            true => Value::Null,
            false => crate::common::json_output("lab-run", &done.stdout),
        };
        (done.status.code(), messages, summary)
    }

    /// Starts the same in the background.
    fn start(&self, more: &str) -> Child {
        let mut command = self.plain(&run_line(more));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Waits until this trial (from 0) is running.
    fn wait_for(&self, trial: u32) {
        wait("trial", || self.root().join(format!("t{trial}.log")).exists());
        std::thread::sleep(Duration::from_millis(300));
    }

    fn fails(&self, line: &str, code: i32, fragments: &[&str]) {
        let done = self.plain(line).output().unwrap();
        let messages = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{line}: {messages}");
        for fragment in fragments {
            assert!(messages.contains(fragment), "{line}: does not contain {fragment:?}: {messages}");
        }
    }

    /// The stored trials of the latest run.
    fn stored(&self) -> Vec<Trial> {
        let mut store = Store::open(&self.at("lab-smoke.db")).unwrap();
        let runs = store.runs().unwrap();
        store.trials(runs.last().unwrap().0).unwrap()
    }

    /// Checks that the scratch directory is empty and no process of a trial runs.
    fn assert_clean(&self) {
        assert!(!self.root().exists());
        let data: Vec<_> = std::fs::read_dir(self.at("data")).unwrap().flatten().collect();
        assert!(data.is_empty(), "{data:?}");
        assert_eq!(self.processes(), Vec::<String>::new());
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(self.at("s").to_str().unwrap()), "{mounts}");
    }

    /// The processes that belong to this scratch directory.
    fn processes(&self) -> Vec<String> {
        let root = self.root();
        let mark = format!("POOLWRIGHT_LAB={}", root.display());
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|e| e.path());
        let ours = all.filter(|p| {
            let environ = std::fs::read(p.join("environ")).unwrap_or_default();
            environ.split(|b| *b == 0).any(|v| v == mark.as_bytes())
        });
        ours.map(|p| std::fs::read_to_string(p.join("cmdline")).unwrap_or_default()).collect()
    }
}

fn run_line(more: &str) -> String {
    let target = if more.contains("--target") { "" } else { "--target directory:data --only size" };
    format!("run ./smoke.toml --scratch s --json {target} {more}")
}

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let start = Instant::now();
    while !until() {
        assert!(start.elapsed() < Duration::from_secs(300), "no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    std::process::Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
}

#[test]
fn wrong_arguments_say_what_is_allowed() {
    let lab = Lab::new();
    lab.fails("run nothing", 2, &["no campaign \"nothing\"", "the campaigns are "]);
    lab.fails("run ./none.toml", 1, &["none.toml"]);
    lab.fails("run ./smoke.toml --scale huge", 2, &["no scale \"huge\"", "long, small"]);
    lab.fails("run ./smoke.toml --target disk", 2, &["directory:PATH"]);
    lab.fails("run ./smoke.toml --target directory:/nowhere", 2, &["/nowhere"]);
    lab.fails("run ./smoke.toml --repeats 0", 2, &["1..=1000"]);
    lab.fails("run ./smoke.toml --seed=-1", 2, &["--seed"]);
    lab.fails("run ./smoke.toml --scratch s --only sizes", 2, &["no study \"sizes\"", "size, compression"]);
    lab.fails(
        "run ./smoke.toml --scratch s --target directory:data",
        2,
        &["study \"compression\" varies properties", "--only size"],
    );
    lab.fails("run ./smoke.toml --results no/such.db", 1, &["no/such.db"]);
    lab.fails(
        "report smoke --results none.db",
        1,
        &["no results of smoke: none.db does not exist", "lab run smoke"],
    );
    lab.campaign(&SMOKE.replace("repeats = 3", "repeats = \"three\""));
    lab.fails("run ./smoke.toml", 1, &["smoke.toml:29:11: ", "a whole number"]);
    lab.campaign(&SMOKE.replace("driver = \"files\"", "driver = \"oracle\""));
    lab.fails("run ./smoke.toml", 1, &["no such driver", "workloads/lab/oracle"]);
    lab.campaign(&SMOKE.replace("300M", "300P"));
    lab.fails("run ./smoke.toml --target directory:data --only size", 1, &["free", "--scratch"]);
}

#[test]
fn the_shipped_campaigns_are_listed() {
    let lab = Lab::new();
    let done = lab.plain("list --json").output().unwrap();
    let list = crate::common::json_output("lab-list", &done.stdout);
    for campaign in list.as_array().unwrap() {
        assert!(
            campaign["name"].is_string() && campaign["title"].is_string() && campaign["needs"].is_array()
        );
        assert!(campaign["trials"].as_u64().unwrap() > 0, "{campaign}");
    }
    assert!(lab.plain("list").output().unwrap().status.success());
}

#[test]
fn a_campaign_runs_once_and_a_second_time_nothing_is_left_to_do() {
    let lab = Lab::new();
    let (code, messages, summary) = lab.run("");
    assert_eq!(code, Some(0), "{messages}");
    assert_eq!((&summary["trials"], &summary["skipped"]), (&6.into(), &0.into()), "{summary}");
    assert!(messages.contains("trial 1 of 6") && messages.contains("left"), "{messages}");
    assert_eq!(lab.stored().len(), 6);
    lab.assert_clean();
    let (code, messages, summary) = lab.run("");
    assert_eq!((code, &summary["skipped"]), (Some(0), &6.into()));
    assert!(messages.contains("6 of 6 trials are already in the results"), "{messages}");
    let (_, _, summary) = lab.run("--repeats 4");
    assert_eq!((&summary["trials"], &summary["skipped"]), (&8.into(), &6.into()), "more repeats are added");
    let (_, messages, summary) = lab.run("--seed 2 --repeats 1");
    assert_eq!((&summary["run"], &summary["skipped"]), (&2.into(), &0.into()), "{messages}");
    lab.campaign(&SMOKE.replace("Files by their size", "Files by size"));
    let (_, messages, summary) = lab.run("--repeats 1");
    assert_eq!((&summary["run"], &summary["skipped"]), (&3.into(), &0.into()));
    assert!(messages.contains("has changed since its last run"), "{messages}");
}

/// The number of trials of two equal cases, if a claim says that one of them is larger. `equal` is in the rule of the claim.
fn trials_of_equal_cases(equal: &str) -> usize {
    let lab = Lab::new();
    let level = |name: &str| format!("{{ name = \"{name}\", set = {{ \"workload.bytes\" = 100_000 }} }}");
    let claim = format!(
        "[[study.claim]]\ntext = \"a is larger than b\"\nmeasure = \"logical.data\"\nbetter = {{ bytes = \"a\" }}\n\
         than = {{ bytes = \"b\" }}\ndecide = {{ most = 5{equal} }}\n[[study.phase]]\nname = \"write\"\nlimit"
    );
    let campaign = SMOKE
        .replacen("repeats = 3", "repeats = 2", 1)
        .replacen("[100_000, 300_000]", &format!("[{}, {}]", level("a"), level("b")), 1)
        .replacen("[[study.phase]]\nname = \"write\"\nlimit", &claim, 1);
    lab.campaign(&campaign);
    let (code, messages, _) = lab.run("");
    assert_eq!(code, Some(0), "{messages}");
    lab.stored().len()
}

#[test]
fn an_undecided_claim_gets_more_blocks_until_it_is_decided_or_there_are_enough() {
    assert_eq!(trials_of_equal_cases(""), 2 * 5, "the figures are equal, so no block shows a difference");
    assert_eq!(trials_of_equal_cases(", equal = 0.05"), 2 * 2, "two blocks show that they are equal");
}

#[test]
fn no_trial_begins_after_the_time_of_a_run() {
    let lab = Lab::new();
    let (code, messages, summary) = lab.run("--for 1ms");
    assert_eq!((code, &summary["trials"], &summary["left"]), (Some(0), &0.into(), &6.into()), "{messages}");
    let (code, _, summary) = lab.run("");
    assert_eq!((code, &summary["done"], &summary["left"]), (Some(0), &6.into(), &0.into()));
}

#[test]
fn a_failed_trial_is_kept_and_the_others_go_on() {
    let lab = Lab::new();
    lab.campaign(&SMOKE.replace("levels = [100_000, 300_000]", "levels = [100_000, -5]"));
    let (code, messages, summary) = lab.run("--repeats 2");
    assert_eq!(code, Some(1), "{messages}");
    assert_eq!(summary["failed"].as_array().unwrap().len(), 2, "{summary}");
    assert!(messages.contains("trial failed: size bytes=-5, block 1: "), "{messages}");
    let stored = lab.stored();
    assert_eq!((stored.len(), stored.iter().filter(|t| t.outcome.is_err()).count()), (4, 2));
    lab.assert_clean();
    let (code, _, summary) = lab.run("--repeats 2");
    assert_eq!((code, &summary["skipped"]), (Some(1), &2.into()), "failed trials are run again");
    assert_eq!(lab.stored().len(), 4);
}

#[test]
fn a_killed_run_goes_on_and_has_every_trial_once() {
    let lab = Lab::new();
    let mut child = lab.start("--scale long");
    lab.wait_for(0);
    lab.fails(
        "run ./smoke.toml --scratch s --target directory:data --only size",
        1,
        &["another run", "--scratch"],
    );
    lab.wait_for(1);
    signal(&child, "-KILL");
    child.wait().unwrap();
    // One trial; on a slow machine, more may have ended before the kill.
    let before = lab.stored();
    assert!((1..6).contains(&before.len()) && before.iter().all(|t| t.outcome.is_ok()), "{before:?}");
    let (code, messages, summary) = lab.run("--scale long");
    assert_eq!((code, &summary["skipped"]), (Some(0), &before.len().into()), "{messages}");
    let keys: BTreeSet<TrialKey> = lab.stored().into_iter().map(|t| t.key).collect();
    assert_eq!((keys.len(), lab.stored().len()), (6, 6), "every trial once");
    lab.assert_clean();
}

#[test]
fn nodes_share_a_directory_and_each_trial_has_one_result() {
    let lab = Lab::new();
    let share = |code| {
        let done = lab
            .plain("share ./smoke.toml shared --scale long --only size --target directory:data --json")
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(code), "{}", String::from_utf8_lossy(&done.stderr));
        crate::common::json_output("lab-share", &done.stdout)
    };
    let figures = |of: &Value| {
        ["collected", "succeeded", "missing", "queued", "claimed", "done"]
            .map(|name| of[name].as_u64().unwrap())
    };
    lab.fails("task 0 --shared shared", 1, &["has no run", "lab share"]);
    assert_eq!(figures(&share(0)), [0, 0, 6, 3, 0, 0]);
    lab.fails("task 3 --shared shared --scratch s", 2, &["no such task: 3"]);
    let task = |number: u32, node: &str| {
        let mut command = lab.plain(&format!("task {number} --shared shared --node {node} --scratch s"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut first = task(0, "a").spawn().unwrap();
    let mut lost = task(1, "b").spawn().unwrap();
    wait("claim", || lab.at("shared/claimed/1@b").exists() && lab.at("shared/claimed/0@a").exists());
    let running = figures(&share(0));
    assert_eq!(running[2..], [6 - running[1], 1, 2, 0], "nothing is written while nodes run tasks");
    signal(&lost, "-KILL");
    lost.wait().unwrap();
    assert!(first.wait().unwrap().success());
    // The node starts again.
    assert!(task(1, "b").status().unwrap().success() && task(2, "c").status().unwrap().success());
    assert_eq!(figures(&share(0)), [6, 6, 0, 0, 0, 0]);
    assert_eq!(figures(&share(0)), [0, 6, 0, 0, 0, 0]);
    let stored = lab.stored();
    let keys: BTreeSet<&TrialKey> = stored.iter().map(|trial| &trial.key).collect();
    let nodes: BTreeSet<&str> = stored.iter().map(|trial| trial.node.as_str()).collect();
    assert_eq!((stored.len(), keys.len(), nodes), (6, 6, BTreeSet::from(["a", "b", "c"])));
    let more = lab.plain("share ./smoke.toml shared --seed 2").output().unwrap();
    assert!(String::from_utf8_lossy(&more.stderr).contains("belongs to another run"), "{more:?}");
    lab.assert_clean();
}

#[test]
fn ctrl_c_discards_the_running_trial_and_leaves_nothing() {
    let lab = Lab::new();
    for name in ["-INT", "-TERM"] {
        let mut child = lab.start(&format!("--scale long --seed 7{}", if name == "-INT" { "" } else { "7" }));
        lab.wait_for(1);
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        lab.assert_clean();
        let stored = lab.stored();
        assert!((1..6).contains(&stored.len()) && stored.iter().all(|t| t.outcome.is_ok()), "{stored:?}");
    }
}

#[test]
fn datasets_on_the_engine_are_measured() {
    if let Err(why) = std::fs::File::options().read(true).write(true).open("/dev/fuse") {
        eprintln!("skipped: /dev/fuse cannot be opened: {why}");
        return;
    }
    let lab = Lab::new();
    let (code, messages, summary) = lab.run("--target pool --only compression");
    assert_eq!((code, &summary["trials"]), (Some(0), &4.into()), "{messages}");
    lab.assert_clean();
    let stored = lab.stored();
    let allocated = |level: &str| {
        let of_level = stored.iter().filter(|t| t.key.case["compression"] == level);
        let outcomes = of_level.map(|t| t.outcome.as_ref().unwrap());
        outcomes.map(|o| o.measure("allocated.data").unwrap().value).collect::<Vec<f64>>()
    };
    let (off, lz4) = (allocated("off"), allocated("lz4"));
    assert!(off.len() == 2 && lz4.len() == 2, "{off:?} {lz4:?}");
    assert!(lz4.iter().all(|lz4| off.iter().all(|off| lz4 * 1.4 < *off)), "{off:?} {lz4:?}");
}
