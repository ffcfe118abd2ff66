//! Replay of the log of one transaction group: overwrites, truncations and holes in order. Only the log has them, because the group never
//! ends. The killed process, the victim, runs this test binary. `POOLWRIGHT_SEED` selects other random operations.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, File, Pool, Spec};

const RECORD: u64 = 16 << 10;
/// Writes of at least this size are logged as a pointer to their block, smaller ones with their data.
const LARGE: u64 = 32 << 10;
/// Datasets: name, logbias, recordsize.
const DATASETS: &[(&str, &str, &str)] =
    &[("a", "latency", "16K"), ("b", "throughput", "16K"), ("c", "throughput", "128K")];
/// Number of files with random operations, besides those of `CASES`.
const RANDOM: u64 = 120;

#[derive(Clone, Copy)]
enum Op {
    /// Offset, length, fill byte.
    Write(u64, u64, u8),
    /// Like `Write`, but durable when it returns.
    WriteSync(u64, u64, u8),
    Truncate(u64),
    Punch(u64, u64),
    Sync,
}
use Op::{Punch, Sync, Truncate, Write as W, WriteSync};

/// Operations that were lost in the past; each file is synced at the end.
const CASES: &[&[Op]] = &[
    // A truncation between two writes of a block, of which the second repeats the first.
    &[W(0, 2 * LARGE, 1), Truncate(0), W(0, 2 * LARGE, 2)],
    &[W(0, 2 * LARGE, 1), Truncate(RECORD), W(0, 2 * LARGE, 2)],
    // A hole.
    &[W(0, 2 * LARGE, 1), Punch(0, LARGE), W(0, 2 * LARGE, 2)],
    &[W(0, 2 * LARGE, 1), Punch(RECORD + 512, 512), W(RECORD, LARGE, 2)],
    // A durable write after one that may wait.
    &[W(0, 4096, 1), WriteSync(0, 4096, 2)],
    &[W(0, LARGE, 1), WriteSync(0, 4096, 2)],
    &[W(0, LARGE, 1), Sync, Truncate(0), WriteSync(0, 4096, 2)],
    &[W(0, LARGE, 1), Punch(0, RECORD), WriteSync(0, 4096, 2)],
    // A durable write before one that may wait.
    &[W(0, 2 * LARGE, 1), WriteSync(RECORD, 4096, 2), W(0, 2 * LARGE, 3)],
];

/// splitmix64.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn drawn(n: u64) -> Vec<Op> {
    let seed: u64 = std::env::var("POOLWRIGHT_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let mut state = seed << 32 | n;
    let mut below = |most: u64| mix(&mut state) % most;
    (0..8 + below(24))
        .map(|i| {
            let unit = [1, 512, 4096, RECORD][below(4) as usize];
            let at = below(8 * RECORD) / unit * unit;
            let len = [100, 4096, RECORD, LARGE, LARGE + 4096, 100_000][below(6) as usize];
            match below(12) {
                0 => Truncate(at),
                1 => Truncate(0),
                2 | 3 => Punch(at, len),
                4 => Sync,
                5 | 6 => WriteSync(at, len, i as u8 + 1),
                _ => W(at, len, i as u8 + 1),
            }
        })
        .collect()
}

/// Name and operations of every file.
fn files() -> Vec<(String, Vec<Op>)> {
    let cases = CASES.iter().enumerate().map(|(i, ops)| (format!("case{i}"), ops.to_vec()));
    cases.chain((0..RANDOM).map(|n| (format!("drawn{n}"), drawn(n)))).collect()
}

/// Bytes that vary with the offset, so that shifted data are detected.
fn bytes(at: u64, len: u64, what: u8) -> Vec<u8> {
    (at..at + len).map(|i| what ^ (i / 509) as u8 ^ (i as u8)).collect()
}

fn on_engine(file: &File, op: Op) {
    match op {
        W(at, len, what) => file.write_at(at, &bytes(at, len, what)),
        WriteSync(at, len, what) => file.write_sync_at(at, &bytes(at, len, what)),
        Truncate(size) => file.truncate(size),
        Punch(at, len) => file.punch(at, len),
        Sync => file.sync(),
    }
    .unwrap();
}

fn on_model(content: &mut Vec<u8>, op: Op) {
    match op {
        W(at, len, what) | WriteSync(at, len, what) => {
            let end = (at + len) as usize;
            content.resize(content.len().max(end), 0);
            content[at as usize..end].copy_from_slice(&bytes(at, len, what));
        }
        Truncate(size) => content.resize(size as usize, 0),
        Punch(at, len) => {
            let (at, end) = (content.len().min(at as usize), content.len().min((at + len) as usize));
            content[at..end].fill(0);
        }
        Sync => {}
    }
}

fn fill(ds: &Dataset) {
    let files = files();
    // Four concurrent threads, because the thread that syncs fills the blocks of the log.
    std::thread::scope(|scope| {
        for part in files.chunks(files.len().div_ceil(4)) {
            scope.spawn(move || {
                for (name, ops) in part {
                    let file = ds.create_file(name).unwrap();
                    ops.iter().for_each(|op| on_engine(&file, *op));
                    file.sync().unwrap();
                }
            });
        }
    });
}

/// Runs only as the victim.
#[test]
#[ignore = "started by the test below as a separate process"]
fn victim() {
    let Ok(vdev) = std::env::var("POOLWRIGHT_LOG_VDEV") else { return };
    // Transaction groups end neither after five seconds nor at an amount of dirty data.
    let config = Config { txg_timeout_s: 3600, dirty_bytes: 4 << 30, ..Config::default() };
    let pool = Pool::create(Engine::start(&config).unwrap(), &Spec::single("log", vdev, 12)).unwrap();
    let datasets = DATASETS.iter().map(|(name, logbias, recordsize)| {
        let settings = [("recordsize", *recordsize), ("logbias", *logbias), ("compression", "lz4")];
        let settings: Settings = settings.map(|(name, value)| (name.into(), value.into())).into();
        let ds = pool.create_dataset(name, &settings).unwrap();
        ds.create_file("first").unwrap().sync().unwrap(); // the first record of a log waits for a transaction group
        ds
    });
    let datasets: Vec<Dataset> = datasets.collect(); // closing a dataset would end the group
    datasets.iter().for_each(fill);
    writeln!(std::io::stdout().lock(), "\nall synced").unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

fn run_and_kill(vdev: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["victim", "--exact", "--ignored", "--nocapture"])
        .env("POOLWRIGHT_LOG_VDEV", vdev)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let synced = out.lines().map_while(Result::ok).any(|line| line == "all synced");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(synced, "the victim ended early");
}

fn differs(ds: &Dataset, name: &str, ops: &[Op]) -> Option<String> {
    let mut should = Vec::new();
    ops.iter().for_each(|op| on_model(&mut should, *op));
    let Ok(file) = ds.open_file(name) else { return Some(format!("{name} is missing")) };
    let mut is = vec![0; file.size() as usize];
    let read = file.read_at(0, &mut is).unwrap();
    if (read, is.len()) != (should.len(), should.len()) {
        return Some(format!("{name} has {} bytes, should have {}", is.len(), should.len()));
    }
    let at = is.iter().zip(&should).position(|(a, b)| a != b)?;
    Some(format!("{name} differs from {at} on, of {} bytes", should.len()))
}

#[test]
fn one_group_is_replayed_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let vdev = dir.path().join("vdev");
    run_and_kill(&vdev);
    let pool = Pool::import(Engine::start(&Config::default()).unwrap(), &[vdev], false).unwrap();
    let files = files();
    for (name, logbias, recordsize) in DATASETS {
        let ds = pool.open_dataset(name).unwrap();
        assert!(ds.replayed() > files.len() as u64, "only {} records were replayed", ds.replayed());
        let wrong: Vec<String> = files.iter().filter_map(|(name, ops)| differs(&ds, name, ops)).collect();
        let (n, all) = (wrong.len(), files.len());
        assert!(wrong.is_empty(), "{logbias}, {recordsize}: {n} of {all} files: {wrong:#?}");
    }
    pool.export().unwrap();
}
