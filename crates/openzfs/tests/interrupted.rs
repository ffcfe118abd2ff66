//! The power fails while a vdev is attached, detached or replaced, then the pool is imported: it has all of its data, no vdev is faulted,
//! the files that it uses are known, and a complete replacement ends.
//!
//! The victim of a power cut runs this test binary. Its drives write at once and in order, so a cut is almost a SIGKILL, at an exact
//! operation: a write or a flush of a vdev. The cuts are dense at the end of a change, where labels and uberblocks are written.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{import_again, noise, vdev_words, victim as victim_of};
use poolwright_openzfs::{Config, Engine, Error, Pool, Spec, power};

const SIZE: u64 = 128 << 20;
const CONTENT: usize = 1_000_000;
/// The last operations of a change, at each of which the power is cut once.
const DENSE: u64 = 24;
/// Number of cuts at operations before these.
const SPARSE: u64 = 6;

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 64 << 20, txg_timeout_s: 1, ..Config::default() }).unwrap()
}

fn write(pool: &Pool, file: &str, seed: u64) {
    let ds = pool.open_dataset("").unwrap();
    ds.create_file(file).unwrap().write_at(0, &noise(CONTENT, seed)).unwrap();
    drop(ds);
    pool.sync().unwrap();
}

fn check(pool: &Pool, files: &[(&str, u64)]) {
    let ds = pool.open_dataset("").unwrap();
    for (file, seed) in files {
        let mut back = vec![0; CONTENT];
        ds.open_file(file).unwrap().read_at(0, &mut back).unwrap();
        assert!(back == noise(CONTENT, *seed), "the content of {file}");
    }
}

/// A change of a pool's vdevs. Paths are relative to a directory.
struct Change {
    name: &'static str,
    vdevs: &'static str,
    make: fn(&Pool, &Path) -> Result<(), Error>,
}

const CHANGES: &[Change] = &[
    Change {
        name: "attach",
        vdevs: "a",
        make: |pool, dir| {
            pool.attach(&dir.join("a"), (&dir.join("b"), None), |_| Ok::<(), Error>(()))?;
            pool.wait_resilvered().map(drop)
        },
    },
    Change { name: "detach", vdevs: "mirror a b", make: |pool, dir| pool.detach(&dir.join("a")) },
    Change {
        name: "replace",
        vdevs: "a",
        make: |pool, dir| {
            pool.replace(&dir.join("a"), (Some(&dir.join("b")), None), |_| Ok::<(), Error>(()))?;
            pool.wait_resilvered().map(drop)
        },
    },
    Change {
        name: "spare",
        vdevs: "a spare b",
        make: |pool, dir| {
            pool.replace(&dir.join("a"), (Some(&dir.join("b")), None), |_| Ok::<(), Error>(()))?;
            pool.wait_resilvered()?;
            pool.detach(&dir.join("a"))
        },
    },
];

/// Makes a change. The power fails at the operation `AFTER` of it, or at its end.
#[test]
#[ignore = "started by the tests below as a separate process"]
fn victim() {
    let parameter = |name: &str| std::env::var(format!("POOLWRIGHT_INTERRUPTED_{name}")).ok();
    let Some(dir) = parameter("DIR").map(PathBuf::from) else { return };
    let change = CHANGES.iter().find(|change| parameter("CHANGE").as_deref() == Some(change.name)).unwrap();
    let after_ops = parameter("AFTER").unwrap().parse().unwrap();
    let groups = Spec::parse_vdevs(&vdev_words(&dir, change.vdevs, SIZE)).unwrap();
    let pool = Pool::create(engine(), &Spec { name: change.name.into(), ashift: 12, groups }).unwrap();
    write(&pool, "before", 1);
    power::start(&power::Options { after_ops, seed: after_ops, limit_bytes: 1, ..Default::default() });
    (change.make)(&pool, &dir).unwrap();
    power::cut(0);
}

impl Change {
    /// Makes the change in another process until the power is cut at this operation, or at the end. Returns the operation of the cut.
    fn interrupt(&self, dir: &Path, after: u64) -> u64 {
        let mut child = victim_of(&[
            ("POOLWRIGHT_INTERRUPTED_DIR", dir.to_str().unwrap()),
            ("POOLWRIGHT_INTERRUPTED_CHANGE", self.name),
            ("POOLWRIGHT_INTERRUPTED_AFTER", &after.to_string()),
        ]);
        let Output { status, stderr, .. } = child.output().unwrap();
        let text = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(power::EXIT_CODE), "{} at {after}: {text}", self.name);
        let report = text.split_once("power cut at operation ").unwrap().1;
        report.split(',').next().unwrap().parse().unwrap()
    }

    /// Imports the pool after a cut, uses it and imports it again with the files that it knew.
    fn recover(&self, dir: &Path, at: u64) {
        let survey = |pool: &Pool| {
            let states: Vec<String> = pool.vdevs().unwrap().into_iter().map(|vdev| vdev.state).collect();
            format!("{} at {at}: {states:?}, {:?}, {:?}", self.name, pool.files(), pool.scan().unwrap())
        };
        // Those that a search finds: the label of a detached file is invalid.
        let files: Vec<PathBuf> = ["a", "b"].map(|name| dir.join(name)).to_vec();
        let found: Vec<PathBuf> = files.iter().filter(|file| Pool::name_in(file).is_ok()).cloned().collect();
        let pool = import_again(engine(), &found);
        pool.forget_unused().unwrap();
        let is_good = |state: &str| matches!(state, "ONLINE" | "AVAIL" | "INUSE");
        assert!(pool.vdevs().unwrap().iter().all(|vdev| is_good(&vdev.state)), "{}", survey(&pool));
        let known: BTreeSet<PathBuf> = pool.files().into_iter().collect();
        let used = files.iter().filter(|file| pool.uses_file(file).unwrap()).cloned().collect();
        assert_eq!(known, used, "{}", survey(&pool));
        check(&pool, &[("before", 1)]);
        write(&pool, "after", 2);
        assert!(!pool.wait_resilvered().unwrap(), "{}", survey(&pool));
        pool.scrub().unwrap();
        assert!(pool.vdevs().unwrap().iter().all(|vdev| is_good(&vdev.state)), "{}", survey(&pool));
        assert_eq!(pool.scan().unwrap().unwrap().errors, 0, "{}", survey(&pool));
        let files = pool.files();
        pool.export().unwrap();
        let pool = import_again(engine(), &files);
        check(&pool, &[("before", 1), ("after", 2)]);
        pool.export().unwrap();
    }
}

#[track_caller]
fn is_safe(name: &str) {
    let change = CHANGES.iter().find(|change| change.name == name).unwrap();
    let one = |after| {
        let dir = tempfile::tempdir().unwrap();
        let at = change.interrupt(dir.path(), after);
        change.recover(dir.path(), at);
        at
    };
    let total = one(0);
    let dense = total.saturating_sub(DENSE).max(1);
    let sparse = (1..dense).step_by((dense / SPARSE).max(1) as usize);
    println!("{name} takes {total} operations");
    for after in sparse.chain(dense..=total) {
        one(after);
    }
}

#[test]
fn an_attachment_is_interrupted() {
    is_safe("attach");
}

#[test]
fn a_detachment_is_interrupted() {
    is_safe("detach");
}

#[test]
fn a_replacement_is_interrupted() {
    is_safe("replace");
}

#[test]
fn a_replacement_by_a_spare_is_interrupted() {
    is_safe("spare");
}
