//! Restores that say nothing about a backup, readers that keep `prune` waiting, and segments that must not share blocks.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::common::backups::Pool;
use crate::common::skip_without_fuse;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

/// A small file system in memory, which is unmounted when this is dropped.
struct SmallScratch<'a>(&'a Path);

impl Drop for SmallScratch<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

fn last_restores(pool: &Pool) -> Vec<Value> {
    let list = pool.json("backup list tank/backup");
    list["backups"].as_array().unwrap().iter().map(|of| of["last_restore"].clone()).collect()
}

fn reasons(pool: &Pool) -> Vec<String> {
    let report = pool.json("backup prune tank/backup --keep 1 --dry-run");
    let decisions = report["decisions"].as_array().unwrap().iter();
    decisions.map(|of| of["reason"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_restore_that_the_host_prevents_does_not_make_the_backup_bad() {
    skip_without_fuse!();
    let pool = Pool::new();
    for text in ["1", "2", "3"] {
        fs::write(pool.at("data/db/file"), text).unwrap();
        pool.back_up(&["--database", "none"]);
    }
    let names: Vec<String> = {
        let list = pool.json("backup list tank/backup");
        let backups = list["backups"].as_array().unwrap().iter();
        backups.map(|of| of["manifest"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let verify = |name: &str, options: &[&str]| {
        pool.output(&[&["backup", "verify", "tank/backup", name], options].concat())
    };
    let (code, _, said) = verify(&names[0], &["--check", "true"]);
    assert_eq!(code, Some(0), "{said}");
    // What checks it is killed; a program is missing.
    for check in ["kill -KILL $$", "/nonexistent/program"] {
        for name in &names[..2] {
            let (code, _, said) = verify(name, &["--check", check]);
            assert!(code == Some(1) && said.contains("could not be tested"), "{code:?} {said}");
        }
    }
    let restores = last_restores(&pool);
    assert_eq!((&restores[0]["passed"], restores[0].get("untested")), (&Value::from(true), None));
    let why = restores[1]["untested"].as_str().unwrap();
    assert!(restores[1]["passed"] == false && why.contains("exit status: 127"), "{why}");
    let text = pool.run("backup list tank/backup");
    assert!(text.contains("not tested") && !text.contains("FAILED"), "{text}");
    let rules = "check BackupNotTested BackupRestoreFailed --json";
    let result: Value = serde_json::from_slice(&pool.command(rules).output().unwrap().stdout).unwrap();
    let alerts: Vec<&Value> = result["alerts"].as_array().unwrap().iter().map(|of| &of["name"]).collect();
    assert_eq!(alerts, ["BackupNotTested"]);
    // Too little space: the refusal is recorded too.
    let scratch = pool.at("scratch");
    fs::create_dir(&scratch).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "none"]).arg(&scratch).status();
    if mounted.is_ok_and(|status| status.success()) {
        let _unmounted = SmallScratch(&scratch);
        let (code, _, said) = verify(&names[2], &["--check", "true", "--scratch", "scratch"]);
        assert!(code == Some(3) && said.contains("needs"), "{code:?} {said}");
        assert!(last_restores(&pool)[2]["untested"].as_str().unwrap().contains("needs"));
    }
    // The second one is as one that was never restored: it goes because of the rule only.
    assert_eq!(
        reasons(&pool),
        ["the newest that passed a restore", "not one of the newest 1", "the newest backup"]
    );
    let (code, ..) = verify(&names[1], &["--check", "false"]);
    assert_eq!(code, Some(1));
    assert_eq!(reasons(&pool)[1], "failed its last restore");
}

#[test]
fn prune_names_the_process_that_reads() {
    skip_without_fuse!();
    let pool = Pool::new();
    fs::write(pool.at("data/db/file"), "rows").unwrap();
    pool.back_up(&["--database", "none"]);
    let files = File::open(pool.at("backup/files")).unwrap();
    flock(&files, FlockOperation::LockShared).unwrap();
    let process = format!("by process {} (`", std::process::id());
    pool.fails("backup prune tank/backup --keep 1", 3, &["is being read", &process]);
    // Closing is not enough: a process that another test starts has a copy of the descriptor until it calls exec.
    flock(&files, FlockOperation::Unlock).unwrap();
    pool.run("backup prune tank/backup --keep 1");
}

#[test]
fn an_archived_segment_shares_no_block_with_that_of_the_server() {
    skip_without_fuse!();
    const SIZE: usize = 1 << 20;
    let pool = Pool::new();
    fs::create_dir(pool.at("data/archive")).unwrap();
    let identity = format!(
        r#"{{"version":1,"system_identifier":"7","segment_size":{SIZE},"backups":"b","dataset":"tank/backup"}}"#
    );
    fs::write(pool.at("data/archive/poolwright-wal.json"), identity).unwrap();
    // A segment of the database 7, with data that does not compress to nothing.
    let mut bytes: Vec<u8> = (0..SIZE).map(|at| (at * at / 7) as u8).collect();
    bytes[2..4].copy_from_slice(&2_u16.to_ne_bytes());
    bytes[8..16].copy_from_slice(&(SIZE as u64).to_ne_bytes());
    bytes[24..32].copy_from_slice(&7_u64.to_ne_bytes());
    bytes[32..36].copy_from_slice(&(SIZE as u32).to_ne_bytes());
    let (from, to) = ("data/db/000000010000000000000001", "data/archive/000000010000000000000001");
    crate::common::mounted::write(pool.at(from), &bytes).unwrap();
    // A snapshot is taken after everything before it has been written: only such blocks can be cloned.
    let shared = |snapshot: &str| {
        pool.run(&format!("dataset snapshot tank/data@{snapshot}"));
        pool.json("pool status tank")["pools"][0]["info"]["stats"]["bclone_saved"].as_u64().unwrap()
    };
    pool.run("dataset snapshot tank/data@written");
    pool.run(&format!("backup wal-push data/archive {from}"));
    assert_eq!(fs::read(pool.at(to)).unwrap(), bytes);
    assert_eq!(shared("pushed"), 0);
    // A copy that is left to the kernel does.
    std::io::copy(&mut File::open(pool.at(from)).unwrap(), &mut File::create(pool.at("data/copy")).unwrap())
        .unwrap();
    assert!(shared("copied") > 0, "the test shows nothing");
}
