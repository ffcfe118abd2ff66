//! Changes of a pool's vdevs, and clones of snapshots: what is written before and after them survives an export and an import.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::{import_again, noise, vdev_words, victim as victim_of};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Error, Import, Pool, Spec, VdevError};

const SIZE: u64 = 128 << 20;

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).unwrap()
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn all(&self, names: &str) -> Vec<PathBuf> {
        names.split_whitespace().map(|name| self.at(name)).collect()
    }

    fn words(&self, text: &str) -> Vec<String> {
        vdev_words(self.0.path(), text, SIZE)
    }

    fn pool(&self, name: &str, vdevs: &str) -> Pool {
        let groups = Spec::parse_vdevs(&self.words(vdevs)).unwrap();
        Pool::create(engine(), &Spec { name: name.into(), ashift: 12, groups }).unwrap()
    }

    fn add(&self, pool: &Pool, vdevs: &str) -> Result<(), Error> {
        pool.add_vdevs(&Spec::parse_added(&self.words(vdevs)).unwrap(), |_| Ok(()))
    }

    fn attach(&self, pool: &Pool, device: &str, file: &str, bytes: Option<u64>) -> Result<(), Error> {
        pool.attach(&self.at(device), (&self.at(file), bytes), |_| Ok(()))
    }

    fn replace(&self, pool: &Pool, device: &str, file: Option<&str>) -> Result<(), Error> {
        let file = file.map(|file| self.at(file));
        pool.replace(&self.at(device), (file.as_deref(), None), |_| Ok(()))
    }
}

fn write(pool: &Pool, file: &str, seed: u64) {
    let ds = pool.open_dataset("").unwrap();
    ds.create_file(file).unwrap().write_at(0, &noise(3_000_000, seed)).unwrap();
    drop(ds);
    pool.sync().unwrap();
}

fn content(ds: &Dataset, file: &str) -> Vec<u8> {
    let file = ds.open_file(file).unwrap();
    let mut back = vec![0; file.size() as usize];
    assert_eq!(file.read_at(0, &mut back).unwrap(), back.len());
    back
}

#[track_caller]
fn check(pool: &Pool, file: &str, seed: u64) {
    let ds = pool.open_dataset("").unwrap();
    assert!(content(&ds, file) == noise(3_000_000, seed), "the content of {file}");
}

/// Scrubs the pool, which must be without errors.
#[track_caller]
fn scrub(pool: &Pool) {
    scrub_after(pool, 0);
}

/// Scrubs a pool that has counted this many checksum errors before. The scrub reads each copy of each block, and must find no others.
#[track_caller]
fn scrub_after(pool: &Pool, checksum_errors: u64) {
    pool.scrub().unwrap();
    let (scan, stats) = (pool.scan().unwrap().unwrap(), pool.stats().unwrap());
    assert_eq!((scan.errors, scan.repaired, pool.data_errors().unwrap()), (0, 0, 0));
    assert_eq!((stats.read_errors, stats.write_errors, stats.checksum_errors), (0, 0, checksum_errors));
}

/// Checks that each file of a pool has all data without the others. The pool is a mirror, and not open.
#[track_caller]
fn check_copies(all: &[PathBuf], contents: &[(&str, u64)]) {
    for one in all {
        let others = || all.iter().filter(|file| *file != one);
        others().for_each(|file| fs::rename(file, file.with_extension("away")).unwrap());
        let pool = Pool::import(engine(), std::slice::from_ref(one), true).unwrap();
        contents.iter().for_each(|&(file, seed)| check(&pool, file, seed));
        drop(pool);
        others().for_each(|file| fs::rename(file.with_extension("away"), file).unwrap());
    }
}

#[track_caller]
fn refused(result: Result<(), Error>) -> VdevError {
    match result {
        Err(Error::Vdev { why, .. }) => why,
        other => panic!("{other:?} is not a refusal"),
    }
}

#[test]
fn added_vdevs_hold_data() {
    let files = Files::new();
    let pool = files.pool("added", "a cache x");
    write(&pool, "before", 1);
    let size = pool.stats().unwrap().size;
    let mut seen = Vec::new();
    let groups = Spec::parse_added(&files.words("b log l cache y")).unwrap();
    pool.add_vdevs(&groups, |all| {
        seen = all.to_vec();
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(seen, files.all("a b l x y"), "cache vdevs are last");
    assert_eq!(pool.files(), seen);
    assert_eq!(pool.stats().unwrap().size, 2 * size);
    write(&pool, "after", 2);
    let ds = pool.open_dataset("").unwrap();
    let synced = ds.create_file("synced").unwrap();
    (0..3).for_each(|n| synced.write_sync_at(n * 4096, &noise(4096, 3)).unwrap());
    drop(synced);
    assert!(ds.zil_stats().slog_write > 0, "the new log is used");
    drop(ds);
    pool.export().unwrap();

    let pool = import_again(engine(), &files.all("a b l x y"));
    check(&pool, "before", 1);
    check(&pool, "after", 2);
    scrub(&pool);
    assert!(
        pool.vdev_stats().iter().any(|(path, moved)| *path == files.at("b") && moved.read_bytes > 2_000_000)
    );
    assert_eq!(pool.files().len(), 5);
    pool.export().unwrap();
}

#[test]
fn an_attached_file_has_all_data() {
    let files = Files::new();
    let pool = files.pool("attached", "a");
    write(&pool, "f", 1);
    files.attach(&pool, "a", "b", None).unwrap();
    assert_eq!(fs::metadata(files.at("b")).unwrap().len(), SIZE, "as large as the one that it mirrors");
    write(&pool, "during", 2);
    assert!(!pool.wait_resilvered().unwrap());
    assert_eq!(pool.vdevs().unwrap().len(), 4, "the root, the mirror and its two files");
    scrub(&pool);
    pool.detach(&files.at("a")).unwrap();
    assert_eq!(pool.files(), files.all("b"));
    fs::remove_file(files.at("a")).unwrap();
    assert_eq!(pool.changed_files(), [], "a detached file does not belong to the pool");
    write(&pool, "after", 3);
    scrub(&pool);
    pool.export().unwrap();

    let pool = import_again(engine(), &files.all("b"));
    for (file, seed) in [("f", 1), ("during", 2), ("after", 3)] {
        check(&pool, file, seed);
    }
    // A detached file is free for another use when it is empty.
    fs::File::create(files.at("a")).unwrap();
    files.attach(&pool, "b", "a", None).unwrap();
    files.attach(&pool, "b", "c", None).unwrap();
    assert!(!pool.wait_resilvered().unwrap());
    assert_eq!(pool.files(), files.all("b a c"));
    pool.export().unwrap();
    check_copies(&files.all("a b c"), &[("f", 1), ("during", 2), ("after", 3)]);
}

#[test]
fn a_replaced_file_is_detached_at_the_end() {
    let files = Files::new();
    let pool = files.pool("replaced", "a raidz b c d");
    write(&pool, "f", 1);
    files.replace(&pool, "a", Some("e")).unwrap();
    assert!(!pool.wait_resilvered().unwrap());
    assert_eq!(pool.files(), files.all("b c d e"));
    files.replace(&pool, "c", Some("g")).unwrap();
    assert!(!pool.wait_resilvered().unwrap());
    scrub(&pool);
    pool.export().unwrap();
    for old in ["a", "c"] {
        fs::remove_file(files.at(old)).unwrap();
    }
    let pool = import_again(engine(), &files.all("b d e g"));
    check(&pool, "f", 1);
    scrub(&pool);
    pool.export().unwrap();
}

#[test]
fn a_lost_file_is_replaced_in_its_place() {
    let files = Files::new();
    let pool = files.pool("lost", "mirror a b");
    write(&pool, "f", 1);
    fs::remove_file(files.at("b")).unwrap();
    assert!(!pool.fault_file(&files.at("b")).unwrap());
    write(&pool, "g", 2);
    files.replace(&pool, "b", None).unwrap();
    assert_eq!(pool.changed_files(), [], "the new file is that of the pool");
    assert!(!pool.wait_resilvered().unwrap());
    assert_eq!(pool.files(), files.all("a b"));
    scrub(&pool);
    pool.export().unwrap();

    // The same while the pool is not open.
    fs::remove_file(files.at("a")).unwrap();
    let pool = import_again(engine(), &files.all("b"));
    assert_eq!(pool.vdevs().unwrap()[0].state, "DEGRADED");
    write(&pool, "h", 3);
    files.replace(&pool, "a", Some("c")).unwrap();
    assert_eq!(fs::metadata(files.at("c")).unwrap().len(), SIZE);
    assert!(!pool.wait_resilvered().unwrap());
    assert_eq!(pool.files(), files.all("b c"));
    assert_eq!(pool.vdevs().unwrap()[0].state, "ONLINE");
    scrub(&pool);
    for (file, seed) in [("f", 1), ("g", 2), ("h", 3)] {
        check(&pool, file, seed);
    }
}

#[test]
fn refusals_change_nothing() {
    let files = Files::new();
    let pool = files.pool("refusing", "mirror a b cache x");
    write(&pool, "f", 1);
    fs::write(files.at("full"), b"precious").unwrap();
    fs::write(files.at("empty"), b"").unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(files.0.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();

    assert!(matches!(refused(files.add(&pool, "c")), VdevError::MismatchedRedundancy { .. }));
    let text = files.add(&pool, "mirror c d e").unwrap_err().to_string();
    assert!(
        text.starts_with(
            "adding vdevs to refusing: mismatched redundancy: the pool's data is on mirrors of 2 files"
        ),
        "{text}"
    );
    assert!(matches!(refused(files.add(&pool, "mirror c a")), VdevError::InUse(_)));
    assert!(matches!(files.add(&pool, "mirror c full"), Err(Error::Exists(_))));
    assert!(matches!(files.add(&pool, "mirror c c"), Err(Error::Exists(_))));
    let failing = |_: &[PathBuf]| Err(Error::Invalid("not now".into()));
    let groups = Spec::parse_added(&files.words("mirror c empty")).unwrap();
    assert!(matches!(pool.add_vdevs(&groups, failing), Err(Error::Invalid(_))));

    assert!(matches!(refused(files.attach(&pool, "z", "c", None)), VdevError::NoSuchDevice { .. }));
    assert!(matches!(refused(files.attach(&pool, "a", "b", None)), VdevError::InUse(_)));
    assert!(matches!(refused(files.attach(&pool, "x", "c", None)), VdevError::Unsuitable { .. }));
    assert!(matches!(refused(files.attach(&pool, "a", "c", Some(64 << 20))), VdevError::TooSmall { .. }));
    assert!(matches!(files.attach(&pool, "a", "full", None), Err(Error::Exists(_))));
    assert!(matches!(files.attach(&pool, "a", "none/c", None), Err(Error::Host { .. })));
    assert!(matches!(files.replace(&pool, "a", None), Err(Error::Exists(_))));
    assert!(matches!(refused(files.replace(&pool, "a", Some("b"))), VdevError::InUse(_)));
    assert!(matches!(refused(files.replace(&pool, "x", Some("c"))), VdevError::Unsuitable { .. }));
    assert!(matches!(refused(pool.detach(&files.at("z"))), VdevError::NoSuchDevice { .. }));
    assert!(matches!(refused(pool.detach(&files.at("x"))), VdevError::NotDetachable { .. }));
    assert!(matches!(refused(pool.remove_vdev(&files.at("z"))), VdevError::NoSuchDevice { .. }));
    assert_eq!(refused(pool.remove_vdev(&files.at("a"))), VdevError::NotRemovable(files.at("a")));

    assert_eq!(names(), before, "no new file is left, and none is removed");
    assert_eq!(fs::read(files.at("full")).unwrap(), b"precious");
    assert_eq!(fs::metadata(files.at("empty")).unwrap().len(), 0);
    assert_eq!(pool.files(), files.all("a b x"));
    check(&pool, "f", 1);

    // The last complete copy cannot be detached.
    fs::rename(files.at("b"), files.at("b away")).unwrap();
    assert!(!pool.fault_file(&files.at("b")).unwrap());
    assert_eq!(refused(pool.detach(&files.at("a"))), VdevError::OnlyCopy(files.at("a")));
    fs::rename(files.at("b away"), files.at("b")).unwrap();
    pool.export().unwrap();
    let pool = import_again(engine(), &files.all("a b x"));
    assert!(!pool.wait_resilvered().unwrap());
    pool.detach(&files.at("a")).unwrap();
    assert!(matches!(refused(pool.detach(&files.at("b"))), VdevError::NotMirrored(_)));
    pool.export().unwrap();

    let pool =
        Pool::import_with(engine(), &files.all("b x"), Import { readonly: true, force: false }).unwrap();
    assert_eq!(refused(files.add(&pool, "c")), VdevError::ReadOnly);
    assert_eq!(refused(files.attach(&pool, "b", "c", None)), VdevError::ReadOnly);
    assert_eq!(refused(files.replace(&pool, "b", Some("c"))), VdevError::ReadOnly);
    assert_eq!(refused(pool.detach(&files.at("b"))), VdevError::ReadOnly);
    assert!(!files.at("c").exists());
}

#[test]
fn part_of_a_raidz_cannot_be_mirrored() {
    let files = Files::new();
    let pool = files.pool("parity", "raidz a b c");
    assert!(matches!(refused(files.attach(&pool, "a", "d", None)), VdevError::Unsuitable { .. }));
    assert!(matches!(refused(pool.detach(&files.at("a"))), VdevError::NotMirrored(_)));
    assert!(matches!(refused(files.add(&pool, "mirror d e")), VdevError::MismatchedRedundancy { .. }));
    files.add(&pool, "raidz d e f").unwrap();
    assert_eq!(pool.files(), files.all("a b c d e f"));
}

/// Creates a pool, announces that, attaches a file and waits for the resilver, again and again, until it is killed.
#[test]
#[ignore = "started by the test below as a separate process"]
fn victim() {
    let Some(dir) = std::env::var_os("POOLWRIGHT_VDEVS_DIR") else { return };
    let at = |name: &str| Path::new(&dir).join(name);
    let groups = Spec::parse_vdevs(&[format!("{}:{SIZE}", at("a").display())]).unwrap();
    let pool = Pool::create(engine(), &Spec { name: "killed".into(), ashift: 12, groups }).unwrap();
    write(&pool, "f", 1);
    println!("\nready");
    for n in 0.. {
        let file = at(&format!("b{n}"));
        pool.attach(&at("a"), (&file, None), |_| Ok::<(), Error>(())).unwrap();
        assert!(!pool.wait_resilvered().unwrap());
        pool.detach(&file).unwrap();
    }
}

/// Returns the checksum errors of the second file, if there is one; the first file must have none.
///
/// An import reads the pool's metadata before it has loaded the lists of what each file of a mirror lacks (the comment in
/// OpenZFS's `vdev_dtl_contains()`). So it may read a block from a file that was being attached and does not have it yet, counts a
/// checksum error, and reads the other file. 2.3.2 does this too, but only while it reads the configuration; then it makes the vdevs
/// again, without errors. With three entries more (`com.klarasystems:txg_log_time`), the object directory of a pool of 2.4.3 has a
/// second leaf, and one of the two is first read after that, by 2.3.2 as well.
#[track_caller]
fn errors_of_attached(pool: &Pool) -> u64 {
    let (vdevs, files) = (pool.vdevs().unwrap(), pool.files().len());
    assert!(vdevs.iter().all(|vdev| (vdev.read_errors, vdev.write_errors) == (0, 0)), "{vdevs:?}");
    let (first, attached) = vdevs[vdevs.len() - files..].split_first().unwrap();
    assert_eq!(first.checksum_errors, 0, "{vdevs:?}");
    attached.iter().map(|vdev| vdev.checksum_errors).sum()
}

/// Kills the victim at a different point of an attachment in each round.
#[test]
fn a_pool_survives_a_kill_during_an_attachment() {
    let mut attached = 0;
    for round in 0..8 {
        let files = Files::new();
        let dir = files.0.path().to_str().unwrap().to_owned();
        let mut child = victim_of(&[("POOLWRIGHT_VDEVS_DIR", &dir)]).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        assert!(
            out.lines().map_while(Result::ok).any(|line| line == "ready"),
            "the victim runs until it is killed"
        );
        std::thread::sleep(Duration::from_millis(30 + round * 35));
        child.kill().unwrap();
        child.wait().unwrap();
        // The engine finds out which of the files belong to the pool.
        let mut found: Vec<PathBuf> =
            fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.sort();
        let pool = import_again(engine(), &found);
        check(&pool, "f", 1);
        assert!(!pool.wait_resilvered().unwrap());
        pool.forget_unused().unwrap();
        attached += usize::from(pool.files().len() == 2);
        let counted = errors_of_attached(&pool);
        scrub_after(&pool, counted);
        write(&pool, "g", 2);
        files.attach(&pool, "a", "new", None).unwrap();
        assert!(!pool.wait_resilvered().unwrap());
        scrub_after(&pool, counted);
        let all = pool.files();
        pool.export().unwrap();
        check_copies(&all, &[("f", 1), ("g", 2)]);
    }
    println!("killed while attached in {attached} of 8 rounds");
}

#[test]
fn a_clone_diverges_from_its_origin() {
    let files = Files::new();
    let pool = files.pool("cloned", "a");
    let ds = pool.create_dataset("d", &Settings::new()).unwrap();
    ds.create_file("f").unwrap().write_at(0, b"before").unwrap();
    ds.snapshot("s").unwrap();
    ds.open_file("f").unwrap().write_at(0, b"after!").unwrap();
    pool.clone_snapshot("d@s", "copy").unwrap();
    assert_eq!(pool.origin("copy").unwrap().as_deref(), Some("cloned/d@s"));
    assert_eq!(pool.origin("d").unwrap(), None);
    for (snapshot, name, errno) in
        [("d@s", "copy", libc::EEXIST), ("d@none", "other", libc::ENOENT), ("d@s", "no/parent", libc::ENOENT)]
    {
        assert_eq!(
            pool.clone_snapshot(snapshot, name).unwrap_err().errno(),
            Some(errno),
            "{snapshot} {name}"
        );
    }
    let copy = pool.open_dataset("copy").unwrap();
    assert_eq!(content(&copy, "f"), b"before");
    copy.open_file("f").unwrap().write_at(0, b"cloned").unwrap();
    copy.create_file("only here").unwrap();
    assert_eq!(content(&ds, "f"), b"after!");
    assert_eq!(pool.destroy("d@s").unwrap_err().errno(), Some(libc::EEXIST), "it has a clone");
    drop((ds, copy));
    pool.export().unwrap();

    let pool = import_again(engine(), &files.all("a"));
    let (ds, copy) = (pool.open_dataset("d").unwrap(), pool.open_dataset("copy").unwrap());
    assert_eq!((content(&ds, "f"), content(&copy, "f")), (b"after!".to_vec(), b"cloned".to_vec()));
    assert_eq!(content(&ds.open_snapshot(&pool, "s").unwrap(), "f"), b"before");
    assert_eq!((ds.files().unwrap().len(), copy.files().unwrap().len()), (1, 2));
    drop((ds, copy));
    assert!(pool.promote("d").unwrap_err().to_string().ends_with("it is not a clone"));
    pool.promote("copy").unwrap();
    assert_eq!(pool.origin("d").unwrap().as_deref(), Some("cloned/copy@s"));
    pool.destroy("d").unwrap();
    let copy = pool.open_dataset("copy").unwrap();
    assert_eq!(content(&copy.open_snapshot(&pool, "s").unwrap(), "f"), b"before");
    assert_eq!(content(&copy, "f"), b"cloned");
}
