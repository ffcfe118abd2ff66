//! Logs and cache vdevs that are removed from a pool: nothing that was acknowledged is lost, and the pool needs their files no more.

mod common;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::{import_again, noise, vdev_words, victim as victim_of};
use poolwright_openzfs::{Config, Dataset, Engine, Error, Pool, Spec, VdevError};

const SIZE: u64 = 128 << 20;
const PAGE: usize = 4096;

/// Transaction groups start only on request, so that the log holds the only copy of what was written last.
fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 64 << 20, txg_timeout_s: 3600, ..Config::default() }).unwrap()
}

fn create(dir: &Path, name: &str, vdevs: &str) -> Pool {
    let groups = Spec::parse_vdevs(&vdev_words(dir, vdevs, SIZE)).unwrap();
    Pool::create(engine(), &Spec { name: name.into(), ashift: 12, groups }).unwrap()
}

fn at(dir: &Path, names: &str) -> Vec<PathBuf> {
    names.split_whitespace().map(|name| dir.join(name)).collect()
}

/// Appends synchronous writes to `f`, from page `first` on.
fn write_synced(ds: &Dataset, first: u64, count: u64) {
    let file = ds.create_file("f").or_else(|_| ds.open_file("f")).unwrap();
    for page in first..first + count {
        file.write_sync_at(page * PAGE as u64, &noise(PAGE, page)).unwrap();
    }
}

#[track_caller]
fn check(pool: &Pool, pages: u64) {
    let ds = pool.open_dataset("").unwrap();
    let file = ds.open_file("f").unwrap();
    assert_eq!(file.size(), pages * PAGE as u64);
    for page in 0..pages {
        let mut back = vec![0; PAGE];
        file.read_at(page * PAGE as u64, &mut back).unwrap();
        assert!(back == noise(PAGE, page), "page {page}");
    }
}

#[test]
fn a_log_is_removed_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let pool = create(dir, "shorter", "a log mirror l m cache x");
    let ds = pool.open_dataset("").unwrap();
    write_synced(&ds, 0, 40);
    assert!(ds.zil_stats().slog_write > 0, "the log is used");
    pool.remove_vdev(&dir.join("m")).unwrap();
    assert_eq!(pool.files(), at(dir, "a x"), "both files of the log's mirror are removed");
    let on_log = ds.zil_stats().slog_write;
    write_synced(&ds, 40, 40);
    assert_eq!(ds.zil_stats().slog_write, on_log);
    pool.remove_vdev(&dir.join("x")).unwrap();
    assert_eq!(pool.files(), at(dir, "a"));
    drop(ds);
    pool.export().unwrap();
    for name in ["l", "m", "x"] {
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    let pool = import_again(engine(), &at(dir, "a"));
    check(&pool, 80);
    let groups = Spec::parse_added(&vdev_words(dir, "log l cache x", SIZE)).unwrap();
    pool.add_vdevs(&groups, |_| Ok::<(), Error>(())).unwrap();
    assert_eq!(pool.files(), at(dir, "a l x"));
    assert!(
        pool.vdevs().unwrap().iter().all(|vdev| vdev.guid != "0"),
        "the place of the removed log is not a vdev"
    );
}

/// Creates a pool, writes synchronously to its log, announces that, and waits.
#[test]
#[ignore = "started by the test below as a separate process"]
fn victim() {
    let Some(dir) = std::env::var_os("POOLWRIGHT_REMOVAL_DIR") else { return };
    let pool = create(Path::new(&dir), "crashed", "a log l");
    // A transaction group writes all earlier changes to the pool, the creation of the file included.
    let ds = pool.open_dataset("").unwrap();
    write_synced(&ds, 0, 1);
    pool.sync().unwrap();
    write_synced(&ds, 1, 9);
    println!("\nwritten");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_log_that_holds_the_only_copy_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut child = victim_of(&[("POOLWRIGHT_REMOVAL_DIR", dir.to_str().unwrap())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    assert!(
        out.lines().map_while(Result::ok).any(|line| line == "written"),
        "the victim runs until it is killed"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let pool = import_again(engine(), &at(dir, "a l"));
    let refused = pool.remove_vdev(&dir.join("l"));
    assert!(matches!(refused, Err(Error::Vdev { why: VdevError::UnreplayedLog(_), .. })), "{refused:?}");
    // The dataset replays its log when it is opened, and uses it further.
    check(&pool, 10);
    let ds = pool.open_dataset("").unwrap();
    write_synced(&ds, 10, 1);
    assert!(ds.zil_stats().slog_write > 0, "the log is used after the refusal");
    drop(ds);
    pool.remove_vdev(&dir.join("l")).unwrap();
    pool.export().unwrap();
    let pool = import_again(engine(), &at(dir, "a"));
    check(&pool, 11);
}
