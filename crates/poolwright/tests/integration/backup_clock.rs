//! `poolwright backup` with a clock that steps either way: a library that is loaded before the program changes its clock.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::backups::Pool;
use crate::common::{follows_schema, skip_without_fuse};
use serde_json::Value;

const DAY: i64 = 86_400;
const RUN: &str = "backup run data/db --to tank/backup --mountpoint backup --database none";

/// A pool, and the library.
struct Clock {
    pool: Pool,
    library: PathBuf,
}

impl Clock {
    fn new() -> Clock {
        let pool = Pool::new();
        let library = pool.at("clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        assert!(compiler.status().unwrap().success());
        Clock { pool, library }
    }

    /// Runs the program with a clock that is ahead by some days: its exit code, and what it printed on each of its outputs.
    fn run(&self, days: i64, line: &str) -> (Option<i32>, String, String) {
        let mut command = self.pool.plain();
        command.args(line.split_whitespace()).env("LD_PRELOAD", &self.library);
        let done = command.env("CLOCK_OFFSET", (days * DAY).to_string()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code(), text(done.stdout), text(done.stderr))
    }

    fn json(&self, days: i64, line: &str) -> Value {
        let (code, text, said) = self.run(days, &format!("{line} --json"));
        assert_eq!(code, Some(0), "{line}: {said}");
        serde_json::from_str(&text).unwrap()
    }

    /// Makes a backup in which the file has this text; its name.
    fn back_up(&self, days: i64, text: &str, options: &str) -> String {
        fs::write(self.pool.at("data/db/file"), text).unwrap();
        let report = follows_schema("backup-run", self.json(days, &format!("{RUN} {options}")));
        report["backup"]["name"].as_str().unwrap().to_owned()
    }

    /// The names of the backups in a dataset, and their ages in days.
    fn list(&self, dataset: &str) -> Vec<(String, i64)> {
        let list = follows_schema("backup-list", self.json(0, &format!("backup list {dataset}")));
        let entry = |of: &Value| {
            let age = of["age_s"].as_f64().unwrap() / DAY as f64;
            (of["manifest"]["name"].as_str().unwrap().to_owned(), age.round() as i64)
        };
        list["backups"].as_array().unwrap().iter().map(entry).collect()
    }

    fn kept(&self, days: i64, rules: &str) -> Vec<bool> {
        let report = self.json(days, &format!("backup prune tank/backup {rules}"));
        let decisions = report["decisions"].as_array().unwrap().iter();
        decisions.map(|of| of["kept"].as_bool().unwrap()).collect()
    }

    fn alerts(&self) -> Vec<String> {
        let done = self.pool.command("check BackupInFuture --json").output().unwrap();
        let result: Value = serde_json::from_slice(&done.stdout).unwrap();
        let alerts = result["alerts"].as_array().unwrap().iter();
        alerts.map(|alert| alert["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_backup_from_the_future_is_not_the_newest() {
    skip_without_fuse!();
    let clock = Clock::new();
    let first = clock.back_up(10, "state 1", "");
    assert_eq!(clock.alerts(), ["BackupInFuture"]);
    fs::write(clock.pool.at("data/db/file"), "state 2").unwrap();
    let (code, _, said) = clock.run(0, RUN);
    assert!(code == Some(3) && said.contains("is dated in the future"), "{code:?} {said}");
    let second = clock.back_up(0, "state 2", "--accept-future");
    assert_eq!(clock.list("tank/backup"), [(first.clone(), -10), (second.clone(), 0)]);

    clock.pool.run("backup restore tank/backup --to out");
    let restored = fs::canonicalize(clock.pool.at("data/db")).unwrap();
    let restored = clock.pool.at("out").join(restored.strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(restored.join("file")).unwrap(), "state 2");
    let (passed, code) = clock.pool.restore(&["--check", "grep -qx 'state 2' $POOLWRIGHT_RESTORED/file"]);
    assert_eq!((passed.len(), code), (2, Some(0)), "{passed:?}");

    let archive = "backup archive tank/backup --to tank/archive --mountpoint archive --rate 0";
    let archived = clock.json(0, archive);
    assert!(archived["decisions"].as_array().unwrap().iter().all(|of| of["copied"] == true), "{archived}");
    assert_eq!(clock.list("tank/archive"), [(first, -10), (second.clone(), 0)]);
    let third = clock.back_up(0, "state 3", "--accept-future");
    let archived = clock.json(0, archive);
    let copied: Vec<&Value> =
        archived["decisions"].as_array().unwrap().iter().filter(|of| of["copied"] == true).collect();
    assert!(copied.len() == 1 && copied[0]["name"] == third.as_str(), "{archived}");

    let (code, _, said) = clock.run(0, "backup prune tank/backup --keep 1");
    assert!(code == Some(3) && said.contains("--accept-future"), "{code:?} {said}");
    // The second one is the only one that has passed a restore.
    assert_eq!(clock.kept(0, "--keep 1 --accept-future"), [false, true, true]);
    assert_eq!(clock.list("tank/backup"), [(second, 0), (third, 0)]);
}

#[test]
fn a_clock_that_was_behind_makes_no_backup_old() {
    skip_without_fuse!();
    let clock = Clock::new();
    let first = clock.back_up(0, "state 1", "");
    let (code, _, said) = clock.run(-400, RUN);
    assert!(code == Some(3) && said.contains("set the clock"), "{code:?} {said}");
    let second = clock.back_up(-400, "state 2", "--accept-future");
    let third = clock.back_up(0, "state 3", "");
    assert_eq!(clock.list("tank/backup"), [(first, 0), (second, 400), (third, 0)]);
    assert_eq!(clock.kept(0, "--keep-for 30d --unverified"), [true; 3]);
    // The clock is ahead when backups are removed.
    assert_eq!(clock.kept(4000, "--keep-for 30d --unverified"), [true; 3]);
    assert_eq!(clock.kept(0, "--keep 1 --unverified"), [false, false, true]);
}
