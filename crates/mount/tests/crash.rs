//! `kill -9` of the server during work: all data and names acknowledged as durable survive.

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use common::pattern;
use poolwright_mount::{Error, Mount, Options};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Pool, Spec};
use rustix::mount::{UnmountFlags, unmount};

/// Mounts, and serves until it is killed. Runs only in the child process of a test below.
#[test]
#[ignore = "the tests below start it in a child process"]
fn victim() {
    let Some(dir) = std::env::var_os("POOLWRIGHT_MOUNT_CRASH_DIR") else { return };
    let dir = Path::new(&dir);
    let pool = Pool::create(common::engine(), &Spec::single("crash", dir.join("vdev"), 12)).unwrap();
    let dataset = pool.create_dataset("d", &Settings::default()).unwrap();
    let mount = match Mount::start(&pool, &dataset, &dir.join("mnt"), &Options::default()) {
        Ok(mount) => mount,
        Err(why) => {
            println!("\nrefused {why}");
            return;
        }
    };
    println!("\nmounted {}", mount.path().display());
    std::io::stdout().flush().unwrap();
    mount.wait().unwrap();
}

/// Works like a database: appends to a log and syncs it, creates files under temporary names, syncs and renames them,
/// removes old ones, syncs directories. Kills the server during round `last` or soon after. Returns the number of rounds
/// that were acknowledged before the server died.
fn work(root: &Path, last: u64, kill: impl FnOnce() + Send) -> u64 {
    let log = OpenOptions::new().append(true).create(true).open(root.join("log")).unwrap();
    let dir = File::open(root).unwrap();
    dir.sync_all().unwrap();
    let (mut done, began, dead) = (0u64, Instant::now(), AtomicBool::new(false));
    let round = |n: u64| -> std::io::Result<()> {
        (&log).write_all(&pattern(1000, n))?;
        log.sync_data()?;
        let new = File::create(root.join(format!("new{n}")))?;
        new.write_all_at(&pattern(5000, n), 0)?;
        new.sync_all()?;
        fs::rename(root.join(format!("new{n}")), root.join(format!("table{n}")))?;
        if n >= 10 {
            fs::remove_file(root.join(format!("table{}", n - 10)))?;
        }
        dir.sync_all()
    };
    while done < last {
        round(done).unwrap_or_else(|why| panic!("round {done}, before the server was killed: {why}"));
        done += 1;
    }
    // A fraction of the time that a round takes, different for each `last`.
    let part = began.elapsed().div_f64(last as f64).mul_f64((last * 7 % 10) as f64 / 10.0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(part);
            dead.store(true, Ordering::SeqCst);
            kill();
        });
        loop {
            match round(done) {
                Ok(()) => done += 1,
                Err(_) if dead.load(Ordering::SeqCst) => return done,
                Err(why) => panic!("round {done}, before the server was killed: {why}"),
            }
        }
    })
}

fn check(root: &Path, done: u64, case: &str) {
    let log = fs::read(root.join("log")).unwrap();
    assert!(log.len() as u64 >= done * 1000, "{case}: {} bytes of log after {done} rounds", log.len());
    for n in 0..done {
        let row = &log[n as usize * 1000..][..1000];
        assert!(row == pattern(1000, n), "{case}: row {n} of {done}");
        let table = fs::read(root.join(format!("table{n}")));
        // The unacknowledged round may have removed another table.
        match table {
            Ok(bytes) => assert!(bytes == pattern(5000, n), "{case}: table {n}"),
            Err(_) => assert!(n + 10 <= done, "{case}: table {n} is gone after {done} rounds"),
        }
        assert!(n + 10 >= done || !root.join(format!("table{n}")).exists(), "{case}: table {n} came back");
        assert!(!root.join(format!("new{n}")).exists(), "{case}: new{n} was renamed");
    }
}

/// Serializes the tests, because the victims' pools have the same name.
static ALONE: Mutex<()> = Mutex::new(());

/// Starts the victim, which mounts below `dir`. Prints `SKIPPED` and returns `None` if this machine cannot mount.
fn start_victim(test: &str, dir: &Path) -> Option<Child> {
    fs::create_dir(dir.join("mnt")).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["victim", "--exact", "--ignored", "--nocapture"])
        .env("POOLWRIGHT_MOUNT_CRASH_DIR", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.find(|l| l.starts_with("mounted ") || l.starts_with("refused ")).unwrap();
    if let Some(why) = first.strip_prefix("refused ") {
        child.wait().unwrap();
        eprintln!("SKIPPED {test}: {why}");
        return None;
    }
    Some(child)
}

/// Checks that the mount of a killed server is recognised as dead, unmounts it and mounts the dataset again.
fn mount_again(dir: &Path) -> (Pool, Mount) {
    let pool = Pool::import(common::engine(), &[dir.join("vdev")], false).unwrap();
    let dataset = pool.open_dataset("d").unwrap();
    let root = dir.join("mnt");
    let start = || Mount::start(&pool, &dataset, &root, &Options::default());
    match start() {
        Err(Error::DeadMount(_)) => {}
        other => panic!("a dead mount was not recognised: {other:?}"),
    }
    unmount(&root, UnmountFlags::DETACH).unwrap();
    let mount = start().unwrap();
    (pool, mount)
}

#[test]
fn killed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for round in 0..6u64 {
        let tmp = tempfile::tempdir().unwrap();
        let Some(mut child) = start_victim("killed", tmp.path()) else { return };
        let root = tmp.path().join("mnt");
        let done = work(&root, 3 + 37 * round, || child.kill().unwrap());
        child.wait().unwrap();
        let (_pool, mount) = mount_again(tmp.path());
        check(&root, done, &format!("round {round}"));
        mount.unmount().unwrap();
    }
}

/// The kernel answers `stat` of the root directory from its cache.
#[test]
fn a_dead_mount_is_recognised_although_its_attributes_are_cached() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let tmp = tempfile::tempdir().unwrap();
    let Some(mut child) = start_victim("a_dead_mount_is_recognised", tmp.path()) else { return };
    let root = tmp.path().join("mnt");
    fs::metadata(&root).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (_pool, mount) = mount_again(tmp.path());
    mount.unmount().unwrap();
}
