//! The conformance suite for the lab's targets.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use poolwright_lab::campaign::PoolSpec;
use poolwright_lab::trial::Setting;
use poolwright_lab::trial::target::{self, DatasetTarget, Directory, PoolTarget, Target};
use poolwright_lab::{TargetSpec, TrialKey, TrialSpec};
use poolwright_openzfs::property::{self, Settings};
use poolwright_replay::KernelPoolOptions;

fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn datasets() -> BTreeMap<String, Settings> {
    BTreeMap::from([
        ("db".to_owned(), settings(&[("recordsize", "16K"), ("compression", "off")])),
        ("wal".to_owned(), settings(&[("recordsize", "128K"), ("compression", "lz4")])),
    ])
}

/// Incompressible bytes.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(len).collect()
}

const SIZE: usize = 4 << 20;

/// What a target can do.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// It has neither properties nor counters, and cannot record.
    Directory,
    /// It has properties and counters, but caches that it cannot empty.
    Dataset,
    /// It can do everything.
    Pool,
}

/// The checks for all targets, in the order of a trial.
fn suite(mut target: Box<dyn Target>, kind: Kind) {
    let properties = kind != Kind::Directory;
    let (db, wal) = (target.path("db"), target.path("wal"));
    for dir in [&db, &wal] {
        assert!(dir.is_absolute());
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "{} is empty", dir.display());
    }
    target.prepare(false, false).unwrap();
    let content = noise(SIZE);
    fs::write(db.join("table"), &content).unwrap();
    fs::create_dir(wal.join("logs")).unwrap();
    let sparse = fs::File::create(wal.join("logs/sparse")).unwrap();
    sparse.write_all_at(&content[..128 << 10], 1 << 30).unwrap();
    drop(sparse);
    sizes(&*target);

    let before = target.counters().unwrap();
    assert_eq!(before.is_some(), properties, "only targets with properties have counters");
    set_one(&*target, properties);

    if kind == Kind::Dataset {
        let why = target.prepare(true, false).unwrap_err().to_string();
        assert!(why.contains("requires a pool"), "{why}");
    } else {
        target.prepare(true, false).unwrap();
    }
    assert_eq!(fs::read(db.join("table")).unwrap(), content, "the content is the same after a cold start");
    assert_eq!(target.counters().unwrap().is_some(), properties);
    if let Some(counters) = target.counters().unwrap() {
        let read: u64 = counters.vdevs.values().map(|vdev| vdev.read_bytes).sum();
        assert!(read >= SIZE as u64 || kind == Kind::Dataset, "{read}");
        let written: u64 = counters.vdevs.values().map(|vdev| vdev.write_bytes).sum();
        assert!(written >= SIZE as u64 || kind == Kind::Pool, "{written}");
        assert_eq!(counters.zils.len(), 2);
    }
    recording(&mut *target, &db, kind == Kind::Pool);
    snapshots(&*target, &db, kind);
    assert_eq!(!target.servers().is_empty(), properties);
    assert!(target.trouble().is_none());
    assert!(target.location().exists());
    target.versions().unwrap();
    let location = target.location().to_owned();
    target.tear_down().unwrap();
    assert!(!location.exists() && !db.exists());
    target.tear_down().unwrap();
}

fn sizes(target: &dyn Target) {
    target.sync().unwrap();
    let sizes = target.sizes().unwrap();
    assert_eq!(sizes.keys().collect::<Vec<_>>(), ["db", "wal"]);
    let near = |found: u64, bytes: usize| (bytes as u64..bytes as u64 + (1 << 20)).contains(&found);
    assert!(near(sizes["db"].logical, SIZE), "{sizes:?}");
    assert!(near(sizes["db"].allocated, SIZE), "{sizes:?}");
    // A hole takes no space.
    assert!(near(sizes["wal"].logical, 128 << 10), "{sizes:?}");
    assert!(near(sizes["wal"].allocated, 128 << 10), "{sizes:?}");
}

fn set_one(target: &dyn Target, properties: bool) {
    let set = |name: &str, value: &str| target.set("db", &settings(&[(name, value)]));
    if !properties {
        let why = set("compression", "zle").unwrap_err().to_string();
        assert!(why.contains("no properties"), "{why}");
        return;
    }
    set("compression", "zle").unwrap();
    let why = set("compression", "best").unwrap_err().to_string();
    assert!(why.contains("compression=best") && why.contains("/db"), "{why}");
}

/// What is overwritten is held by the snapshot until it is destroyed.
fn snapshots(target: &dyn Target, db: &Path, kind: Kind) {
    if kind != Kind::Pool {
        assert!(target.snapshot("s").is_err() && target.destroy_snapshot("s").is_err());
        assert_eq!(target.sizes().unwrap()["db"].held, None);
        return;
    }
    let held = || {
        target.sync().unwrap();
        target.sizes().unwrap()["db"].held.unwrap() as usize
    };
    assert!(held() < 1 << 20, "{}", held());
    target.snapshot("s").unwrap();
    assert!(target.snapshot("s").is_err(), "the name is taken");
    let mut other = noise(SIZE);
    other.reverse();
    fs::write(db.join("table"), &other).unwrap();
    assert!((SIZE / 2..2 * SIZE).contains(&held()), "{}", held());
    target.destroy_snapshot("s").unwrap();
    // The engine frees the blocks in the background.
    let start = Instant::now();
    while held() >= 1 << 20 {
        assert!(start.elapsed().as_secs() < 60, "{}", held());
    }
    assert!(target.destroy_snapshot("s").is_err());
}

fn recording(target: &mut dyn Target, db: &Path, able: bool) {
    assert!(target.recorded().unwrap().is_empty(), "nothing was recorded yet");
    if !able {
        assert!(target.prepare(false, true).unwrap_err().to_string().contains("requires a pool"));
        return;
    }
    for cold in [false, true] {
        let start = Instant::now();
        target.prepare(cold, true).unwrap();
        let file = fs::OpenOptions::new().write(true).open(db.join("table")).unwrap();
        for piece in 0..8u64 {
            file.write_all_at(&[7; 8192], piece * 8192).unwrap();
        }
        drop(file);
        let recorded = target.recorded().unwrap();
        let reader = poolwright_trace::Reader::open(&recorded["db"].trace).unwrap();
        assert!(reader.recovered().is_none(), "the trace is whole");
        let writes = reader.events().map(Result::unwrap).filter(|e| e.op == poolwright_trace::Op::Write);
        assert_eq!(writes.filter(|e| e.len == 8192).count(), 8);
        assert!(recorded["db"].began >= start);
        assert_eq!(fs::read(db.join("table")).unwrap()[8191], 7, "mounted again");
    }
}

#[test]
fn a_directory() {
    let dir = tempfile::tempdir().unwrap();
    suite(Box::new(Directory::create(dir.path(), ["db", "wal"].into_iter()).unwrap()), Kind::Directory);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_pool() {
    if let Err(why) = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        eprintln!("skipped: /dev/fuse cannot be opened: {why}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("target");
    let target =
        PoolTarget::create(&small_pool(), &datasets(), &BTreeMap::new(), &at, true, &setting()).unwrap();
    suite(Box::new(target), Kind::Pool);
}

#[test]
fn two_pools() {
    if let Err(why) = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        eprintln!("skipped: /dev/fuse cannot be opened: {why}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let create = || {
        let spec = TrialSpec {
            kind: TrialSpec::KIND.to_owned(),
            key: TrialKey { study: "pools".into(), case: BTreeMap::new(), block: 0 },
            driver: "driver".into(),
            driver_words: Vec::new(),
            parameters: serde_json::Map::new(),
            target: TargetSpec::Pool(small_pool()),
            pools: BTreeMap::from([("log".to_owned(), small_pool())]),
            pool_of: BTreeMap::from([("wal".to_owned(), "log".to_owned())]),
            datasets: datasets(),
            places: BTreeMap::new(),
            phases: Vec::new(),
            scratch: dir.path().to_owned(),
            cache: dir.path().to_owned(),
            tools: dir.path().to_owned(),
            seed: 1,
        };
        target::create(&spec, &setting()).unwrap()
    };
    let target = create();
    let servers = target.servers();
    assert!(servers.len() == 2 && servers[0] != servers[1], "{servers:?}");
    let files: Vec<String> = target.counters().unwrap().unwrap().vdevs.into_keys().collect();
    assert_eq!(files, ["d0", "d1", "log/d0", "log/d1"]);
    suite(target, Kind::Pool);
    drop(create());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "both were removed");
}

fn small_pool() -> PoolSpec {
    PoolSpec { vdevs: vec!["d0:1G".into(), "d1:1G".into()], arc: "64M".into(), ..PoolSpec::default() }
}

fn setting() -> Setting {
    Setting {
        program: assert_cmd::cargo::cargo_bin!("poolwright").to_owned(),
        interrupted: || false,
        say: |_| (),
    }
}

/// Runs in the virtual machine of `scripts/test-kernel.sh trials`: the variable names a dataset of the kernel.
#[test]
fn a_dataset_of_the_kernel() {
    let Ok(parent) = std::env::var("POOLWRIGHT_TEST_DATASET") else {
        eprintln!("skipped: POOLWRIGHT_TEST_DATASET names no dataset of the kernel");
        return;
    };
    let mounts = tempfile::tempdir().unwrap();
    let options = KernelPoolOptions {
        parent,
        mount_dir: mounts.path().to_owned(),
        properties: property::defaults(),
        quota: 256 << 20,
        fill_rate: None,
        latency_limit_ns: u64::MAX,
    };
    let create = || DatasetTarget::create(&options, &datasets(), &BTreeMap::new());
    suite(Box::new(create().unwrap()), Kind::Dataset);
    // The suite ended the first one, so its name is free.
    create().unwrap().tear_down().unwrap();
}
