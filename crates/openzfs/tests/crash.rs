//! SIGKILL at random moments, then an import: nothing acknowledged is lost. The killed process, the victim, runs this test binary.

use std::io::Write;
use std::path::{Path, PathBuf};

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Engine, Pool, Spec};

mod common;

const ROW: usize = 5000; // neither a record nor a sector, so that rows straddle both

fn row(i: u64) -> Vec<u8> {
    let mut bytes = format!("row {i} of the table; ").into_bytes().repeat(ROW / 16);
    bytes.truncate(ROW);
    bytes
}

/// Runs only as the victim: writes rows, acknowledging each one after its sync, until it is killed.
#[test]
#[ignore = "started by the test below as a separate process"]
fn victim() {
    let Ok(vdev) = std::env::var("POOLWRIGHT_CRASH_VDEV") else { return };
    let logbias = std::env::var("POOLWRIGHT_CRASH_LOGBIAS").unwrap();
    let engine = Engine::start(&Config::default()).unwrap();
    let pool = Pool::create(engine, &Spec::single("crash", PathBuf::from(vdev), 12)).unwrap();
    let settings: Settings = [
        ("recordsize".into(), "16K".into()),
        ("compression".into(), "lz4".into()),
        ("logbias".into(), logbias),
    ]
    .into();
    let ds = pool.create_dataset("d", &settings).unwrap();
    if std::env::var_os("POOLWRIGHT_CRASH_LIMIT").is_some() {
        // A limit of the file size makes writes fail like a full disk, without a disk to fill and without privileges.
        let limit = libc::rlimit { rlim_cur: 8 << 20, rlim_max: 8 << 20 };
        // SAFETY: the calls affect only this process, which runs nothing else.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
    }
    let out = std::io::stdout();
    let mut n = 0u64;
    loop {
        let name = format!("part{}", n / 50);
        let file = if n.is_multiple_of(50) { ds.create_file(&name) } else { ds.open_file(&name) }.unwrap();
        file.write_at((n % 50) * ROW as u64, &row(n)).unwrap();
        if n % 50 == 49 {
            file.truncate(40 * ROW as u64).unwrap();
        }
        if n % 100 == 99 {
            ds.remove_file(&name).unwrap();
        }
        file.sync().unwrap();
        n += 1;
        // Starts with a newline, because the test runner may have printed an incomplete line.
        writeln!(out.lock(), "\nacknowledged {n}").unwrap();
    }
}

fn check(vdev: &Path, acknowledged: u64) -> u64 {
    let pool = Pool::import(Engine::start(&Config::default()).unwrap(), &[vdev.to_owned()], false).unwrap();
    let ds = pool.open_dataset("d").unwrap();
    for part in 0..acknowledged.div_ceil(50) {
        let (first, end) = (part * 50, (part * 50 + 50).min(acknowledged));
        let removed = part % 2 == 1;
        let Ok(file) = ds.open_file(&format!("part{part}")) else {
            assert!(removed && end + 1 >= first + 50, "part {part} is missing");
            continue;
        };
        // The 50th row truncates the file to 40 rows, possibly before its acknowledgement.
        let rows = if end == first + 50 { 40 } else { (end - first).min(40) };
        assert!(!removed || end < first + 50, "part {part} was removed and is back");
        assert!(
            file.size() >= rows * ROW as u64,
            "part {part} has {} bytes, {rows} rows were acknowledged",
            file.size()
        );
        for i in 0..rows {
            let mut back = vec![0; ROW];
            assert_eq!(file.read_at(i * ROW as u64, &mut back).unwrap(), ROW);
            assert!(back == row(first + i), "row {} differs", first + i);
        }
    }
    let replayed = ds.replayed();
    drop(ds);
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
    pool.export().unwrap();
    replayed
}

#[test]
fn nothing_acknowledged_is_lost() {
    let (mut acknowledged, mut replayed) = (0, 0);
    for (i, rows) in [90, 331, 17, 620, 204, 45].into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let vdev = dir.path().join("vdev");
        let logbias = if i % 2 == 0 { "latency" } else { "throughput" };
        let env = [("POOLWRIGHT_CRASH_VDEV", vdev.to_str().unwrap()), ("POOLWRIGHT_CRASH_LOGBIAS", logbias)];
        let n = common::run_and_kill(&env, rows);
        replayed += check(&vdev, n);
        acknowledged += n;
    }
    println!("{acknowledged} rows acknowledged, {replayed} log records replayed");
    assert!(replayed > 0, "no log was ever replayed, so the test showed nothing");
}

#[test]
fn a_full_host_ends_the_child_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let vdev = dir.path().join("vdev");
    let env = [
        ("POOLWRIGHT_CRASH_VDEV", vdev.to_str().unwrap()),
        ("POOLWRIGHT_CRASH_LOGBIAS", "latency"),
        ("POOLWRIGHT_CRASH_LIMIT", "yes"),
    ];
    let out = common::victim(&env).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("cannot write to the pool file") && text.contains("File too large"), "{text}");
}
