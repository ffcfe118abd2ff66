//! Hot spares: they survive an export and an import, replace vdevs, and become available again or ordinary vdevs.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{import_again, noise, vdev_words};
use poolwright_openzfs::{Config, Engine, Error, Pool, Spec, VdevError};

const SIZE: u64 = 128 << 20;
const CONTENT: usize = 3_000_000;

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).unwrap()
}

struct Files(tempfile::TempDir);

impl Files {
    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn all(&self, names: &str) -> Vec<PathBuf> {
        names.split_whitespace().map(|name| self.at(name)).collect()
    }

    fn words(&self, text: &str) -> Vec<String> {
        vdev_words(self.0.path(), text, SIZE)
    }

    fn pool(name: &str, vdevs: &str) -> (Files, Pool) {
        let files = Files(tempfile::tempdir().unwrap());
        let groups = Spec::parse_vdevs(&files.words(vdevs)).unwrap();
        let pool = Pool::create(engine(), &Spec { name: name.into(), ashift: 12, groups }).unwrap();
        (files, pool)
    }

    fn replace(&self, pool: &Pool, device: &str, file: &str) -> Result<(), Error> {
        pool.replace(&self.at(device), (Some(&self.at(file)), None), |_| Ok(()))
    }

    /// Replaces a device by a spare and waits for the resilver.
    #[track_caller]
    fn use_spare(&self, pool: &Pool, device: &str, spare: &str) {
        self.replace(pool, device, spare).unwrap();
        assert!(!pool.wait_resilvered().unwrap(), "a spare replaces nothing for good");
        assert_eq!(pool.spares_in_use().unwrap(), self.all(spare));
    }
}

fn write(pool: &Pool, seed: u64) {
    let ds = pool.open_dataset("").unwrap();
    ds.create_file(&format!("f{seed}")).unwrap().write_at(0, &noise(CONTENT, seed)).unwrap();
    drop(ds);
    pool.sync().unwrap();
}

/// Scrubs the pool, which must be without errors, and compares the files with these seeds.
#[track_caller]
fn check(pool: &Pool, seeds: &[u64]) {
    pool.scrub().unwrap();
    let (scan, stats) = (pool.scan().unwrap().unwrap(), pool.stats().unwrap());
    assert_eq!((scan.errors, scan.repaired, pool.data_errors().unwrap()), (0, 0, 0));
    assert_eq!((stats.read_errors, stats.write_errors, stats.checksum_errors), (0, 0, 0));
    let ds = pool.open_dataset("").unwrap();
    for seed in seeds {
        let mut back = vec![0; CONTENT];
        ds.open_file(&format!("f{seed}")).unwrap().read_at(0, &mut back).unwrap();
        assert!(back == noise(CONTENT, *seed), "the content of f{seed}");
    }
}

/// The states of the spares, in the order of the pool's list.
fn states(pool: &Pool) -> Vec<String> {
    pool.vdevs().unwrap().into_iter().filter(|vdev| vdev.spare).map(|vdev| vdev.state).collect()
}

#[track_caller]
fn refused(result: Result<(), Error>) -> VdevError {
    match result {
        Err(Error::Vdev { why, .. }) => why,
        other => panic!("{other:?} is not a refusal"),
    }
}

#[test]
fn spares_survive_an_import_and_a_move() {
    let (files, pool) = Files::pool("spares", "a cache x spare s");
    assert_eq!(pool.files(), files.all("a x s"));
    let groups = Spec::parse_added(&files.words("spare t")).unwrap();
    pool.add_vdevs(&groups, |_| Ok::<(), Error>(())).unwrap();
    assert_eq!((states(&pool), pool.files()), (vec!["AVAIL".to_owned(); 2], files.all("a x s t")));
    write(&pool, 1);
    pool.export().unwrap();

    fs::rename(files.at("s"), files.at("moved")).unwrap();
    let pool = import_again(engine(), &files.all("a x moved t"));
    assert_eq!(states(&pool), ["AVAIL", "AVAIL"]);
    assert_eq!(pool.files(), files.all("a x moved t"));
    assert!(pool.uses_file(&files.at("moved")).unwrap() && !pool.uses_file(&files.at("s")).unwrap());
    check(&pool, &[1]);
    pool.export().unwrap();

    // A spare that is not named is found at its last place, and locked.
    let pool = import_again(engine(), &files.all("a"));
    assert_eq!(pool.files(), files.all("a moved t x"));
    pool.export().unwrap();
    let pool = Pool::import(engine(), &files.all("a"), true).unwrap();
    assert_eq!(states(&pool), [] as [String; 0], "a read-only import opens no spares");
    drop(pool);
    fs::remove_file(files.at("t")).unwrap();
    let pool = import_again(engine(), &files.all("a x moved"));
    assert_eq!(states(&pool), ["AVAIL", "UNAVAIL"]);
    assert_eq!(refused(files.replace(&pool, "a", "t")), VdevError::UnavailableSpare(files.at("t")));
    assert!(
        Pool::name_in(&files.at("moved")).unwrap_err().to_string().contains("is a spare or a cache vdev")
    );
}

#[test]
fn a_spare_becomes_an_ordinary_vdev() {
    let (files, pool) = Files::pool("promoted", "mirror a b spare s");
    write(&pool, 1);
    fs::remove_file(files.at("b")).unwrap();
    assert!(!pool.fault_file(&files.at("b")).unwrap());
    write(&pool, 2);
    files.replace(&pool, "b", "s").unwrap();
    write(&pool, 3);
    assert!(!pool.wait_resilvered().unwrap());
    assert_eq!((states(&pool), pool.spares_in_use().unwrap()), (vec!["INUSE".to_owned()], files.all("s")));
    assert_eq!(pool.files(), files.all("a b s"));
    check(&pool, &[1, 2, 3]);
    pool.export().unwrap();

    // The spare stays in use over an import, also if it was moved.
    fs::rename(files.at("s"), files.at("t")).unwrap();
    let pool = import_again(engine(), &files.all("t a"));
    assert_eq!((states(&pool), pool.spares_in_use().unwrap()), (vec!["INUSE".to_owned()], files.all("t")));
    assert_eq!(pool.files(), files.all("t a"), "its label names the pool");
    check(&pool, &[1, 2, 3]);
    pool.detach(&files.at("b")).unwrap();
    assert_eq!((states(&pool).len(), pool.spares_in_use().unwrap().len()), (0, 0));
    assert_eq!(pool.vdevs().unwrap()[0].state, "ONLINE");
    pool.detach(&files.at("a")).unwrap();
    write(&pool, 4);
    pool.export().unwrap();

    let pool = import_again(engine(), &files.all("t"));
    assert_eq!(states(&pool), [] as [String; 0]);
    check(&pool, &[1, 2, 3, 4]);
    let groups = Spec::parse_added(&files.words("spare u")).unwrap();
    pool.add_vdevs(&groups, |_| Ok::<(), Error>(())).unwrap();
    assert_eq!(states(&pool), ["AVAIL"]);
}

#[test]
fn a_detached_spare_is_available_again() {
    let (files, pool) = Files::pool("returned", "a spare s");
    write(&pool, 1);
    files.use_spare(&pool, "a", "s");
    assert_eq!(pool.files(), files.all("a s"));
    write(&pool, 2);
    check(&pool, &[1, 2]);
    pool.detach(&files.at("s")).unwrap();
    assert_eq!((states(&pool), pool.files()), (vec!["AVAIL".to_owned()], files.all("a s")));
    assert_eq!(pool.vdevs().unwrap().len(), 3, "the root, the file and the spare");
    write(&pool, 3);
    files.use_spare(&pool, "a", "s");
    check(&pool, &[1, 2, 3]);
    pool.detach(&files.at("s")).unwrap();
    pool.export().unwrap();
    let pool = import_again(engine(), &files.all("a s"));
    assert_eq!(states(&pool), ["AVAIL"]);
    check(&pool, &[1, 2, 3]);
}

#[test]
fn a_new_file_relieves_a_spare() {
    let (files, pool) = Files::pool("relieved", "raidz a b c spare s");
    write(&pool, 1);
    files.use_spare(&pool, "b", "s");
    assert_eq!(refused(files.replace(&pool, "s", "n")), VdevError::Spared(files.at("s")));
    files.replace(&pool, "b", "n").unwrap();
    assert!(!pool.wait_resilvered().unwrap());
    while pool.spares_in_use().unwrap() != [] as [PathBuf; 0] {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    pool.forget_unused().unwrap();
    assert_eq!((states(&pool), pool.files()), (vec!["AVAIL".to_owned()], files.all("a c n s")));
    check(&pool, &[1]);
    pool.export().unwrap();
    let pool = import_again(engine(), &files.all("a c n s"));
    assert_eq!(states(&pool), ["AVAIL"]);
    check(&pool, &[1]);
}

#[test]
fn refusals_change_nothing() {
    let (files, pool) = Files::pool("strict", "mirror a b log l cache x spare s small:64M");
    write(&pool, 1);
    assert!(matches!(refused(pool.detach(&files.at("s"))), VdevError::NotDetachable { .. }));
    for device in ["l", "x", "s"] {
        assert!(
            matches!(refused(files.replace(&pool, device, "small")), VdevError::Unsuitable { .. }),
            "{device}"
        );
    }
    assert!(matches!(refused(files.replace(&pool, "s", "new")), VdevError::Unsuitable { .. }));
    assert!(matches!(refused(files.replace(&pool, "a", "small")), VdevError::SmallSpare { .. }));
    let sized = pool.replace(&files.at("a"), (Some(&files.at("s")), Some(SIZE)), |_| Ok(()));
    assert!(matches!(sized, Err(Error::Invalid(_))));
    let attached = pool.attach(&files.at("a"), (&files.at("s"), None), |_| Ok(()));
    assert_eq!(refused(attached), VdevError::InUse(files.at("s")));
    assert_eq!(states(&pool), ["AVAIL", "AVAIL"]);

    files.use_spare(&pool, "a", "s");
    assert_eq!(refused(pool.remove_vdev(&files.at("s"))), VdevError::NotRemovable(files.at("s")));
    assert_eq!(refused(files.replace(&pool, "b", "s")), VdevError::InUse(files.at("s")));
    assert_eq!(refused(files.replace(&pool, "a", "small")), VdevError::Spared(files.at("a")));
    let attached = pool.attach(&files.at("a"), (&files.at("new"), None), |_| Ok(()));
    assert_eq!(refused(attached), VdevError::Spared(files.at("a")));
    assert!(!files.at("new").exists());
    pool.detach(&files.at("s")).unwrap();
    check(&pool, &[1]);
}

#[test]
fn a_removed_spare_belongs_to_no_pool() {
    let (files, pool) = Files::pool("shrinking", "a spare s t");
    write(&pool, 1);
    pool.remove_vdev(&files.at("t")).unwrap();
    assert_eq!((states(&pool), pool.files()), (vec!["AVAIL".to_owned()], files.all("a s")));
    // A missing spare can be removed too.
    fs::remove_file(files.at("s")).unwrap();
    pool.remove_vdev(&files.at("s")).unwrap();
    assert_eq!((states(&pool).len(), pool.files()), (0, files.all("a")));
    pool.export().unwrap();
    let pool = import_again(engine(), &files.all("a t"));
    assert_eq!(states(&pool), [] as [String; 0]);
    check(&pool, &[1]);
    // Its labels are erased: the file names no pool.
    assert!(
        Pool::name_in(&files.at("t")).unwrap_err().to_string().contains("none of its four labels is valid")
    );
}

/// The label of a spare is invalid if a program was killed while it activated the spare.
#[test]
fn a_spare_without_a_label_is_removed_and_added_again() {
    let (files, pool) = Files::pool("torn", "a spare s");
    write(&pool, 1);
    pool.export().unwrap();
    fs::write(files.at("s"), vec![0; SIZE as usize]).unwrap();
    let pool = import_again(engine(), &files.all("a s"));
    assert_eq!(refused(files.replace(&pool, "a", "s")), VdevError::UnavailableSpare(files.at("s")));
    pool.remove_vdev(&files.at("s")).unwrap();
    fs::remove_file(files.at("s")).unwrap();
    let groups = Spec::parse_added(&files.words("spare s")).unwrap();
    pool.add_vdevs(&groups, |_| Ok::<(), Error>(())).unwrap();
    assert_eq!(states(&pool), ["AVAIL"]);
    files.use_spare(&pool, "a", "s");
    check(&pool, &[1]);
}

/// Opens the spare of the pool of another process.
#[test]
#[ignore = "started by the test below as a separate process"]
fn victim() {
    let Some(spare) = std::env::var_os("POOLWRIGHT_SPARE") else { return };
    let spare = PathBuf::from(spare);
    let groups = Spec::parse_vdevs(&[format!("{}:{SIZE}", spare.display())]).unwrap();
    let created = Pool::create(engine(), &Spec { name: "thief".into(), ashift: 12, groups });
    assert!(matches!(created, Err(Error::Exists(_))), "{created:?}");
    let imported = Pool::import(engine(), &[spare.with_file_name("copy"), spare], false);
    assert!(matches!(imported, Err(Error::Locked(_))), "{imported:?}");
    println!("refused twice");
}

#[test]
fn another_process_cannot_use_the_file() {
    let (files, pool) = Files::pool("owner", "a spare s");
    pool.export().unwrap();
    fs::copy(files.at("a"), files.at("copy")).unwrap();
    let named = import_again(engine(), &files.all("a s"));
    let spare = files.at("s").display().to_string();
    let try_it = || {
        let mut command: Command = common::victim(&[("POOLWRIGHT_SPARE", &spare)]);
        let done = command.output().unwrap();
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success() && out.contains("refused twice"), "{out}");
    };
    try_it();
    named.export().unwrap();
    let _unnamed = import_again(engine(), &files.all("a"));
    try_it();
}
