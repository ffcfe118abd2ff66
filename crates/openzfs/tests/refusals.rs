//! Refusals that prevent data loss: logs that cannot be replayed completely, pools that are open elsewhere, files that are not empty. The
//! killed processes, the victims, run this test binary.

mod common;

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use poolwright_base::{Exit, ReportedError as _};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Access, Config, Dataset, Engine, Error, Import, Pool, Spec};

/// Size of a row, which occupies one block.
const ROW: usize = 4096;
const ROWS: u64 = 20;
/// The first row is written by a transaction group, because a log begins with one.
const SYNCED: u64 = ROW as u64;

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 64 << 20, txg_timeout_s: 3600, ..Config::default() }).unwrap()
}

/// Unique bytes, which can be found on the disk.
fn row(n: u64) -> Vec<u8> {
    let line = format!("row {n:06} of the log that is to be damaged; ");
    line.into_bytes().into_iter().cycle().take(ROW).collect()
}

/// Creates a pool, writes rows that are only in the log, and kills itself.
#[test]
#[ignore = "started by the tests below as a separate process"]
fn victim() {
    let Some(vdev) = std::env::var_os("POOLWRIGHT_REFUSALS_VDEV") else { return };
    let logbias = std::env::var("POOLWRIGHT_REFUSALS_LOGBIAS").unwrap();
    let name = std::env::var("POOLWRIGHT_REFUSALS_POOL").unwrap();
    let groups = Spec::parse_vdevs(&[format!("{}:256M", Path::new(&vdev).display())]).unwrap();
    let pool = Pool::create(engine(), &Spec { name, ashift: 12, groups }).unwrap();
    let settings: Settings = [("recordsize", "4K"), ("compression", "off"), ("logbias", &logbias)]
        .map(|(p, v)| (p.into(), v.into()))
        .into();
    let ds = pool.create_dataset("d", &settings).unwrap();
    let file = ds.create_file("rows").unwrap();
    pool.sync().unwrap();
    for n in 0..ROWS {
        file.write_sync_at(n * ROW as u64, &row(n)).unwrap();
    }
    // SAFETY: ends this process, like a crash.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// The pool of a killed victim. Tests run concurrently, so each uses another name for its pool.
fn crashed(dir: &Path, pool: &str, logbias: &str, prepare: impl FnOnce(&mut Command)) -> PathBuf {
    let vdev = dir.join("vdev");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["victim", "--exact", "--ignored", "--nocapture"])
        .env("POOLWRIGHT_REFUSALS_VDEV", &vdev)
        .env("POOLWRIGHT_REFUSALS_POOL", pool)
        .env("POOLWRIGHT_REFUSALS_LOGBIAS", logbias);
    prepare(&mut command);
    let ended = command.output().unwrap();
    assert_eq!(ended.status.code(), None, "{}", String::from_utf8_lossy(&ended.stderr));
    vdev
}

/// The offsets of a row in the file: in a block of the log, or in the block to which the log points.
fn places_of(vdev: &Path, bytes: &[u8]) -> Vec<u64> {
    let file = fs::File::open(vdev).unwrap();
    let (mut at, mut found) = (0u64, Vec::new());
    while let Ok(data) = rustix_seek_data(&file, at) {
        let mut chunk = vec![0; 1 << 20];
        let n = file.read_at(&mut chunk, data).unwrap();
        if n == 0 {
            break;
        }
        found.extend(
            chunk[..n]
                .windows(64)
                .enumerate()
                .filter(|(_, w)| *w == &bytes[..64])
                .map(|(i, _)| data + i as u64),
        );
        at = data + n as u64;
    }
    found
}

/// The offset of the next data at or after `at`.
fn rustix_seek_data(file: &fs::File, at: u64) -> std::io::Result<u64> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: a valid descriptor; lseek changes nothing in memory.
    let to = unsafe { libc::lseek(file.as_raw_fd(), at as i64, libc::SEEK_DATA) };
    if to < 0 { Err(std::io::Error::last_os_error()) } else { Ok(to as u64) }
}

fn flip(vdev: &Path, places: &[u64]) {
    let file = fs::OpenOptions::new().read(true).write(true).open(vdev).unwrap();
    for &at in places {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0xff], at).unwrap();
    }
}

fn import(vdev: &Path) -> Pool {
    common::import_again(engine(), &[vdev.to_owned()])
}

fn check_rows(ds: &Dataset) {
    let file = ds.open_file("rows").unwrap();
    for n in 0..ROWS {
        let mut bytes = vec![0; ROW];
        assert_eq!(file.read_at(n * ROW as u64, &mut bytes).unwrap(), ROW, "row {n}");
        assert!(bytes == row(n), "row {n} is lost");
    }
}

/// If a block of the log, or a block to which it points, cannot be read, the engine leaves the log unchanged. When the block is readable
/// again, the whole log is replayed.
#[test]
fn a_damaged_log_is_left_intact() {
    for (logbias, words) in [
        ("latency", "a block of the log cannot be read"),
        ("throughput", "the data of a write cannot be read"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let vdev = crashed(dir.path(), &format!("damaged-{logbias}"), logbias, |_| {});
        // The next import must replay the log that this import claims.
        import(&vdev).export().unwrap();
        let places = places_of(&vdev, &row(ROWS / 2));
        assert!(!places.is_empty(), "{logbias}: the row is not found in the log");
        flip(&vdev, &places);
        for round in 0..2 {
            let pool = import(&vdev);
            let why = pool.open_dataset("d").unwrap_err();
            assert!(matches!(why, Error::Log { .. }), "{logbias}, {round}: {why}");
            let text = why.to_string();
            assert!(text.contains(words) && text.contains("of top-level vdev 0"), "{logbias}: {text}");
            // Data that are not in the log can be read.
            let readonly = Access { readonly: true, ..Access::default() };
            let ds = pool.open_dataset_with("d", readonly).unwrap();
            assert_eq!(
                ds.open_file("rows").unwrap().size(),
                SYNCED,
                "{logbias}: part of the log was replayed"
            );
            drop(ds);
            pool.export().unwrap();
        }
        flip(&vdev, &places);
        let pool = import(&vdev);
        let ds = pool.open_dataset("d").unwrap();
        assert!(ds.replayed() >= ROWS - 1, "{logbias}: {} records", ds.replayed());
        check_rows(&ds);
        drop(ds);
        pool.export().unwrap();
    }
}

/// A read-only import changes no byte of the pool's files and does not replay the log.
#[test]
fn a_read_only_import_changes_no_byte() {
    let dir = tempfile::tempdir().unwrap();
    let vdev = crashed(dir.path(), "unchanged", "latency", |_| {});
    let before = dir.path().join("before");
    let copied = Command::new("cp").arg("--sparse=always").args([&vdev, &before]).status().unwrap();
    assert!(copied.success());
    let how = Import { readonly: true, force: false };
    let pool = Pool::import_with(engine(), std::slice::from_ref(&vdev), how).unwrap();
    assert!(pool.is_readonly());
    let readonly = Access { readonly: true, ..Access::default() };
    let ds = pool.open_dataset_with("d", readonly).unwrap();
    assert_eq!(ds.log_pending(), ROWS - 1, "records that are not shown");
    assert!(ds.create_file("new").is_err());
    assert_eq!(ds.open_file("rows").unwrap().size(), SYNCED);
    drop(ds);
    pool.sync().unwrap();
    pool.export().unwrap();
    assert!(Command::new("cmp").args([&vdev, &before]).status().unwrap().success(), "the file has changed");
    let pool = import(&vdev);
    check_rows(&pool.open_dataset("d").unwrap());
}

/// A pool that another host left open can be imported only with force.
#[test]
fn a_pool_of_another_host_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    // SAFETY: runs between fork and exec, and makes only two system calls, which do not allocate.
    let other_host = || unsafe {
        let name = c"elsewhere";
        if libc::unshare(libc::CLONE_NEWUTS) != 0 || libc::sethostname(name.as_ptr(), 9) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    };
    let mut probe = Command::new("true");
    // SAFETY: as above.
    if let Err(why) = unsafe { probe.pre_exec(other_host) }.status() {
        eprintln!("SKIPPED a_pool_of_another_host_is_refused: no other host name can be set: {why}");
        return;
    }
    let vdev = crashed(dir.path(), "foreign", "latency", |command| {
        // SAFETY: as above.
        unsafe { command.pre_exec(other_host) };
    });
    for readonly in [false, true] {
        let why = Pool::import(engine(), std::slice::from_ref(&vdev), readonly).unwrap_err();
        assert!(matches!(&why, Error::NotExported { host, .. } if host.starts_with("elsewhere")), "{why}");
        assert_eq!(why.exit(), Exit::Refused);
    }
    let how = Import { readonly: false, force: true };
    let pool = Pool::import_with(engine(), std::slice::from_ref(&vdev), how).unwrap();
    check_rows(&pool.open_dataset("d").unwrap());
    drop(pool);
    // Now this engine has had the pool open, and has exported it.
    drop(import(&vdev));
}

/// A failed create keeps existing files and leaves no new ones.
#[test]
fn a_failed_create_removes_only_its_own_files() {
    let dir = tempfile::tempdir().unwrap();
    let [empty, new, full] = ["empty", "new", "full"].map(|name| dir.path().join(name));
    fs::write(&empty, "").unwrap();
    fs::write(&full, "someone's data").unwrap();
    let create = |name: &str, files: &[&PathBuf]| {
        let words: Vec<String> = files.iter().map(|path| format!("{}:128M", path.display())).collect();
        let groups = Spec::parse_vdevs(&words).unwrap();
        Pool::create(engine(), &Spec { name: name.into(), ashift: 12, groups })
    };
    let why = create("refused", &[&empty, &new, &full]).unwrap_err();
    assert!(matches!(why, Error::Exists(_)), "{why}");
    assert!(empty.exists() && fs::metadata(&empty).unwrap().len() == 0, "an empty file was there before");
    assert!(!new.exists(), "a file was left behind");
    assert_eq!(fs::read_to_string(&full).unwrap(), "someone's data");
    // The library refuses this one, for a reason other than the files.
    let other = dir.path().join("other");
    let _pool = create("twice", &[&other]).unwrap();
    assert!(create("twice", &[&empty, &new]).is_err());
    assert!(other.exists());
    assert!(empty.exists() && fs::metadata(&empty).unwrap().len() == 0 && !new.exists());
}

/// Snapshots of several datasets are taken at one instant: if they contain a write, they contain all earlier writes.
#[test]
fn snapshots_of_a_tree_are_of_one_instant() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine(), &Spec::single("instant", dir.path().join("vdev"), 12)).unwrap();
    let [first, second] = ["first", "second"].map(|name| {
        let ds = pool.create_dataset(name, &Settings::new()).unwrap();
        ds.create_file("n").unwrap().write_at(0, &0u64.to_le_bytes()).unwrap();
        ds
    });
    let stop = std::sync::atomic::AtomicBool::new(false);
    let read = |ds: &Dataset, snapshot: &str| {
        let mut bytes = [0; 8];
        ds.open_snapshot(&pool, snapshot).unwrap().open_file("n").unwrap().read_at(0, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let files = [&first, &second].map(|ds| ds.open_file("n").unwrap());
            for n in 1u64.. {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                files.iter().for_each(|file| file.write_at(0, &n.to_le_bytes()).unwrap());
            }
        });
        let mut last = 0;
        for i in 0..100 {
            let name = format!("s{i}");
            pool.snapshot_all(&["first", "second"], &name).unwrap();
            let (a, b) = (read(&first, &name), read(&second, &name));
            if a < b || a > b + 1 {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("snapshot {i}: {a} was written first, then {b}");
            }
            last = a;
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(last > 100, "the writer made no progress");
    });
    // All or none.
    first.snapshot("taken").unwrap();
    assert!(pool.snapshot_all(&["second", "first"], "taken").is_err());
    assert!(!pool.list().unwrap().contains(&"instant/second@taken".to_owned()));
}
