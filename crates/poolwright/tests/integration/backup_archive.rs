//! `poolwright backup archive` on a mounted pool, what the monitor learns of backups, and that the engine has no streams.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, Stdio};

use crate::common::backups::{Pool, is_installed};
use crate::common::mounted::{umount_soon, until};
use crate::common::skip_without_fuse;
use serde_json::Value;

const ARCHIVE: &str = "backup archive tank/backup --to tank/archive --mountpoint archive --rate 0";

/// The metrics of the backups in a dataset: name without prefix → value.
fn metrics(pool: &Pool, dataset: &str) -> serde_json::Map<String, Value> {
    let readings = pool.json("monitor --once");
    let resources = readings["resources"].as_array().unwrap().iter();
    let mut found = resources.filter(|of| of["type"] == "backups" && of["labels"]["dataset"] == dataset);
    let values = found.next().unwrap_or_else(|| panic!("no {dataset}: {readings}"))["values"].clone();
    let short = |(name, value): (&String, &Value)| {
        (name.strip_prefix("poolwright_backups_").unwrap().to_owned(), value.clone())
    };
    values.as_object().unwrap().iter().map(short).collect()
}

/// The alerts about backups.
fn alerts(pool: &Pool, thresholds: &str) -> Vec<String> {
    let rules = "BackupOld BackupRestoreFailed BackupRestoreOld BackupNeverRestored ArchiveOld";
    let done = pool.command(&format!("check {rules} {thresholds} --json")).output().unwrap();
    let result: Value = serde_json::from_slice(&done.stdout).unwrap();
    let alerts = result["alerts"].as_array().unwrap().iter();
    alerts.map(|alert| alert["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_monitor_learns_of_backups_and_restores() {
    skip_without_fuse!();
    if !is_installed("sqlite3") {
        eprintln!("skipped: sqlite3 is not installed");
        return;
    }
    let pool = Pool::new();
    let file = pool.at("data/db/app.sqlite");
    let rows = "CREATE TABLE t (n); INSERT INTO t SELECT value FROM generate_series(1, 20000);";
    assert!(Command::new("sqlite3").arg(&file).arg(rows).status().unwrap().success());
    let backup = pool.back_up(&[]);
    let known = metrics(&pool, "tank/backup");
    assert_eq!(known["newest_time_seconds"], backup["created_unix_s"].as_f64().unwrap());
    assert_eq!(known["newest_size_bytes"], backup["bytes"].as_f64().unwrap());
    assert_eq!((&known["kept"], known.get("last_restore_passed")), (&1.0.into(), None));
    assert_eq!(alerts(&pool, ""), [""; 0]);
    let old = "--threshold backup-age=-1 --threshold restore-age=-1";
    assert_eq!(alerts(&pool, old), ["BackupOld", "BackupNeverRestored"]);

    assert_eq!(pool.restore(&[]).1, Some(0));
    let known = metrics(&pool, "tank/backup");
    assert_eq!(known["last_restore_passed"], 1.0);
    assert_eq!(known["newest_good_time_seconds"], known["newest_time_seconds"]);
    assert!(known["last_good_restore_time_seconds"].as_f64() >= known["newest_time_seconds"].as_f64());
    assert_eq!(alerts(&pool, old), ["BackupOld", "BackupRestoreOld"]);

    // A damaged page, and a backup of it.
    let opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
    opened.write_all_at(&[0xa5; 3000], 4096).unwrap();
    pool.back_up(&[]);
    assert_eq!(pool.restore(&[]).1, Some(1));
    assert_eq!(metrics(&pool, "tank/backup")["last_restore_passed"], 0.0);
    assert_eq!(alerts(&pool, ""), ["BackupRestoreFailed"]);
    // What is known stays when the dataset cannot be read.
    assert!(umount_soon(&pool.at("backup")));
    assert_eq!(metrics(&pool, "tank/backup")["kept"], 2.0);
}

/// Bytes that compress to about a half.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 60) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A pool with three backups, of different contents. Returns their names.
fn with_backups() -> (Pool, Vec<String>) {
    let pool = Pool::new();
    let backups = (1..=3).map(|number| {
        fs::write(pool.at("data/db/table"), bytes(number, 512 << 10)).unwrap();
        fs::write(pool.at(&format!("data/db/file{number}")), bytes(number, 256 << 10)).unwrap();
        pool.back_up(&["--database", "none"])["name"].as_str().unwrap().to_owned()
    });
    let names = backups.collect();
    (pool, names)
}

/// The names of the backups in a dataset.
fn list(pool: &Pool, dataset: &str) -> Vec<String> {
    let list = pool.json(&format!("backup list {dataset}"));
    let names = list["backups"].as_array().unwrap().iter();
    names.map(|of| of["manifest"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The names of the backups that a run copies, or would.
fn copied(report: &Value) -> Vec<&str> {
    let copied = report["decisions"].as_array().unwrap().iter().filter(|of| of["copied"] == true);
    copied.map(|of| of["name"].as_str().unwrap()).collect()
}

/// A backup has the same files, attributes and manifest in the archive.
fn assert_same(pool: &Pool, name: &str) {
    let root = |of: &str| pool.at(of).join(".zfs/snapshot").join(name);
    let (a, b) = (root("backup"), root("archive"));
    let diff = Command::new("diff").arg("-r").args([a.join("files"), b.join("files")]).status().unwrap();
    assert!(diff.success(), "{name}");
    assert_eq!(fs::read(a.join("manifest.json")).unwrap(), fs::read(b.join("manifest.json")).unwrap());
}

#[test]
fn backups_are_archived_listed_restored_and_removed() {
    skip_without_fuse!();
    let (pool, names) = with_backups();
    let dry = pool.json(&format!("{ARCHIVE} --dry-run"));
    assert_eq!(
        (copied(&dry), &dry["created_with"]["recordsize"]),
        (names.iter().map(|of| &**of).collect(), &"16M".into())
    );
    assert!(!pool.at("archive").exists(), "a dry run changes nothing");
    assert_eq!(copied(&pool.json(ARCHIVE)), names);
    let property = |name: &str| {
        pool.json(&format!("dataset get {name} tank/archive"))["values"][0]["value"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        (property("recordsize"), property("compression")),
        ("16777216".to_owned(), "zstd-19".to_owned())
    );
    assert_eq!(list(&pool, "tank/archive"), names);
    names.iter().for_each(|name| assert_same(&pool, name));
    assert_eq!(copied(&pool.json(ARCHIVE)), [""; 0], "another run has nothing to do");

    // A restore from the archive.
    let same = format!("cmp \"$POOLWRIGHT_RESTORED/table\" {}", pool.at("data/db/table").display());
    let (code, _, stderr) = pool.output(&["backup", "verify", "tank/archive", "--check", &same]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(metrics(&pool, "tank/archive")["last_restore_passed"], 1.0);
    assert_eq!(
        alerts(&pool, "--threshold archive-age=-1 --threshold restore-age=-1"),
        ["BackupNeverRestored", "ArchiveOld"]
    );

    // A backup that was removed from the archive does not come back by itself.
    pool.json("backup prune tank/archive --keep 2");
    assert_eq!(list(&pool, "tank/archive"), names[1..]);
    assert_eq!(copied(&pool.json(ARCHIVE)), [""; 0]);
    let again = pool.json(&format!("backup archive tank/backup {} --to tank/archive", names[0]));
    assert_eq!((copied(&again), list(&pool, "tank/archive")), (vec![&*names[0]], names.clone()));
    assert_same(&pool, &names[0]);

    // Only what the archive has may go.
    fs::write(pool.at("data/db/table"), bytes(4, 512 << 10)).unwrap();
    let newer: Vec<String> =
        (0..2).map(|_| pool.back_up(&["--database", "none"])["name"].as_str().unwrap().to_owned()).collect();
    pool.json("backup prune tank/backup --keep 1 --unverified --archive tank/archive");
    assert_eq!(list(&pool, "tank/backup"), newer);
    pool.json(ARCHIVE);
    pool.json("backup prune tank/backup --keep 1 --unverified --archive tank/archive");
    assert_eq!(list(&pool, "tank/backup"), newer[1..]);
    assert_eq!(list(&pool, "tank/archive"), [names, newer].concat());
}

/// Starts to archive slowly, and returns when standard error has named the stage so often.
fn start_slowly(pool: &Pool, stage: &str, times: usize) -> Child {
    let mut command = pool.plain();
    command.args(ARCHIVE.replace("--rate 0", "--rate 512K").split_whitespace());
    let log = fs::File::create(pool.at("stderr")).unwrap();
    let child = command.stderr(log).stdout(Stdio::null()).spawn().unwrap();
    let shown = || fs::read_to_string(pool.at("stderr")).unwrap();
    until(stage, || shown().lines().filter(|line| *line == stage).count() >= times);
    child
}

#[test]
fn an_archive_that_is_interrupted_is_continued() {
    skip_without_fuse!();
    let (pool, mut names) = with_backups();
    let mut child = start_slowly(&pool, "copying", 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(list(&pool, "tank/archive"), names[..1], "the second one is not complete");
    assert_same(&pool, &names[0]);
    // While backups are read, none is removed, and others are made.
    let mut child = start_slowly(&pool, "copying", 1);
    pool.fails("backup prune tank/backup --keep 1 --unverified", 3, &["refused", "is being read"]);
    pool.fails("backup prune tank/archive --keep 1", 3, &["refused", "another backup or removal"]);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut child = start_slowly(&pool, "copying", 1);
    let newest = pool.back_up(&["--database", "none"])["name"].as_str().unwrap().to_owned();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(names.starts_with(&list(&pool, "tank/archive")));

    pool.json(ARCHIVE);
    names.push(newest);
    assert_eq!(list(&pool, "tank/archive"), names);
    names.iter().for_each(|name| assert_same(&pool, name));
}

#[test]
fn archives_that_are_refused() {
    skip_without_fuse!();
    let (pool, _) = with_backups();
    let fails = |line: &str, words: &str| pool.fails(line, 3, &["refused", words]);
    fails("backup archive tank/backup --to tank/backup", "is in the dataset of the backups");
    fails("backup archive tank/backup --to tank/backup/old", "is in the dataset of the backups");
    fails("backup archive tank/data --to tank/archive", "is not a dataset of backups");
    fails("backup archive tank/backup --to tank/archive", "no mount point is named");
    fails(
        "backup archive tank/backup --to tank/archive --mountpoint backup/a",
        "is in the mount of tank/backup",
    );
    fails("backup archive tank/backup --to tank/data", "has files and is not a dataset of backups");
    fails("backup archive tank/backup none --to tank/archive --mountpoint archive", "has no backup none");
    fails("backup prune tank/backup --keep 1 --archive tank/data", "is not an archive");
    pool.fails("backup archive tank/backup --to tank/archive -o recordsize=3K", 2, &["recordsize"]);
    assert!(!pool.run("dataset list").contains("tank/archive"), "it is not created");
    // Without a restore, none is copied, and no archive is created.
    let none = pool.json(&format!("{ARCHIVE} --verified"));
    assert!(copied(&none).is_empty() && none.get("created_with").is_none(), "{none}");
    pool.run(&format!("{ARCHIVE} -o compression=lz4 -o recordsize=1M"));
    fails(
        "backup run data/db --database none --to tank/archive",
        "is an archive, into which backups are copied",
    );
    assert!(pool.run("dataset get compression tank/archive").contains("lz4"));
}

#[test]
fn pools_of_the_engine_have_no_streams() {
    skip_without_fuse!();
    let pool = Pool::new();
    let fails = |line: &str, words: &str| pool.fails(line, 3, &["refused", words]);
    fails("backup send tank/backup --to vault/replica", "the user-space engine, which cannot send streams");
    fails("backup send tank/backup --to root@h:vault/replica", "cannot send streams");
    fails(
        "backup send kernel/backup --to tank/replica",
        "the user-space engine, which cannot receive streams",
    );
    pool.fails("backup send kernel/backup --to tank/replica --ssh ssh", 2, &["--ssh needs a host in --to"]);
    pool.fails("backup send kernel/backup --to=-oX:tank/replica", 2, &["is not a host"]);
}
