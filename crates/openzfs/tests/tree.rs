//! Compares the directory tree with a model in memory, after every operation, after an import, and after SIGKILL.

use std::io::Write;
use std::path::{Path, PathBuf};

use poolwright_openzfs::node::{New, SetAttr};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Errno, Pool, Spec};

mod common;
#[path = "tree/model.rs"]
mod model;
use model::{Model, Random};

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 128 << 20, ..Config::default() }).unwrap()
}

fn create(vdev: &Path, name: &str) -> (Pool, Dataset) {
    let pool = Pool::create(engine(), &Spec::single(name, vdev.to_owned(), 12)).unwrap();
    let ds = pool.create_dataset("d", &Settings::new()).unwrap();
    (pool, ds)
}

fn assert_equal(ds: &Dataset, model: &Model, when: &str) {
    let (is, should) = (model::listing(ds), model.listing());
    let (is_paths, should_paths): (Vec<_>, Vec<_>) = (is.keys().collect(), should.keys().collect());
    assert_eq!(is_paths, should_paths, "{when}: paths differ");
    for (path, item) in &should {
        let mut found = is[path].clone();
        if path == "/" {
            (found.mode, found.uid) = (item.mode, item.uid);
        }
        if item.content != found.content {
            let at = item.content.iter().zip(&found.content).position(|(a, b)| a != b);
            panic!(
                "{when}: {path} has {} bytes, should have {}; first difference at {at:?}",
                found.content.len(),
                item.content.len()
            );
        }
        assert_eq!(&found, item, "{when}: {path} differs");
    }
}

#[test]
fn random_operations_do_what_the_model_does() {
    let dir = tempfile::tempdir().unwrap();
    let vdev = dir.path().join("vdev");
    let seed = std::env::var("POOLWRIGHT_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261);
    println!("seed {seed}");
    let (mut pool, mut ds) = create(&vdev, "tree");
    let (mut random, mut model) = (Random(seed), Model::new());
    let mut succeeded = 0;
    for n in 0..18_000 {
        let op = random.op();
        let (is, should) = (model::apply(&ds, &op), model.apply(&op));
        assert_eq!(is, should, "operation {n}, {op:?}");
        succeeded += usize::from(is.is_ok());
        if n % 6000 == 5999 {
            assert_equal(&ds, &model, "while open");
            drop(ds);
            pool.export().unwrap();
            pool = common::import_again(engine(), std::slice::from_ref(&vdev));
            ds = pool.open_dataset("d").unwrap();
            assert_equal(&ds, &model, "after import");
        }
    }
    assert!(succeeded > 2000, "only {succeeded} of the operations found what they need");
    drop(ds);
    pool.scrub().unwrap();
    let stats = pool.stats().unwrap();
    assert_eq!(stats.checksum_errors, 0);
    assert!(stats.bclone_saved > 0, "no copy shares its blocks");
    pool.export().unwrap();
}

#[test]
fn an_unlinked_file_lives_until_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, ds) = create(&dir.path().join("vdev"), "orphans");
    let root = ds.root().unwrap();
    let new = New { mode: libc::S_IFREG | 0o600, ..New::default() };
    let file = root.make(c"gone", &new).unwrap();
    let object = file.object();
    file.write_at(0, &[7; 100_000], false).unwrap();
    assert_eq!(root.unlink(c"gone").unwrap(), Some(object));
    assert_eq!(root.lookup(c"gone").unwrap_err(), Errno(libc::ENOENT));
    assert_eq!(root.link(c"again", &file).unwrap_err(), Errno(libc::ENOENT), "no name refers to it");
    file.extend(50_000).unwrap();
    assert_eq!(file.size(), 100_000, "it is longer than that");
    file.extend(100_010).unwrap();
    assert_eq!(file.size(), 100_010);
    let mut back = [0; 10];
    assert_eq!(file.read_at(99_990, &mut back).unwrap(), 10);
    assert_eq!((back, file.attr().unwrap().links), ([7; 10], 0));
    file.sync().unwrap();
    drop(file);
    assert_eq!(ds.node(object).unwrap_err(), Errno(libc::ESTALE));

    // A file created without a name, which gets one later.
    let unnamed = root.make_unnamed(&new).unwrap();
    unnamed.write_at(0, b"found", false).unwrap();
    assert_eq!(unnamed.attr().unwrap().links, 0);
    root.link(c"named", &unnamed).unwrap();
    assert_eq!(unnamed.attr().unwrap().links, 1);
    let forgotten = root.make_unnamed(&new).unwrap();
    let lost = forgotten.object();
    drop((unnamed, forgotten, root, ds));
    pool.export().unwrap();
    let pool = common::import_again(engine(), &[dir.path().join("vdev")]);
    let ds = pool.open_dataset("d").unwrap();
    assert_eq!(ds.files().unwrap(), ["named"]);
    assert_eq!(ds.node(lost).unwrap_err(), Errno(libc::ESTALE));
    drop(ds);
    pool.export().unwrap();
}

#[test]
fn a_set_group_id_directory_passes_on_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, ds) = create(&dir.path().join("vdev"), "groups");
    let root = ds.root().unwrap();
    let team = root.make(c"team", &New { mode: libc::S_IFDIR | 0o755, ..New::default() }).unwrap();
    team.set_attr(&SetAttr { mode: Some(0o2775), gid: Some(77), ..SetAttr::default() }).unwrap();
    let file = team.make(c"f", &New { mode: libc::S_IFREG | 0o644, gid: 5, ..New::default() }).unwrap();
    let sub = team.make(c"s", &New { mode: libc::S_IFDIR | 0o755, gid: 5, ..New::default() }).unwrap();
    assert_eq!(file.attr().unwrap().gid, 77);
    assert_eq!((sub.attr().unwrap().gid, sub.mode() & 0o7777), (77, 0o2755));
    drop((file, sub, team, root, ds));
    pool.export().unwrap();
}

#[test]
fn threads_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, ds) = create(&dir.path().join("vdev"), "threads");
    let root = ds.root().unwrap();
    let new = New { mode: libc::S_IFREG | 0o600, ..New::default() };
    for sub in [c"a", c"b"] {
        root.make(sub, &New { mode: libc::S_IFDIR | 0o700, ..New::default() }).unwrap();
    }
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let (ds, new) = (&ds, &new);
            scope.spawn(move || {
                let root = ds.root().unwrap();
                let (a, b) = (root.lookup(c"a").unwrap(), root.lookup(c"b").unwrap());
                let mut random = Random(t + 1);
                for n in 0..1500 {
                    let name = std::ffi::CString::new(format!("f{}", random.below(40))).unwrap();
                    let other = std::ffi::CString::new(format!("f{}", random.below(40))).unwrap();
                    let (from, to) = if random.below(2) == 0 { (&a, &b) } else { (&b, &a) };
                    // Any of these may fail because of another thread.
                    let _ = from
                        .make(&name, new)
                        .and_then(|f| f.write_at(0, format!("{t} {n}").as_bytes(), false));
                    let _ = from.rename(&name, to, &other, 0);
                    let _ = to.lookup(&other).and_then(|f| from.link(&name, &f));
                    let _ = to.unlink(&name);
                    if n % 50 == 0 {
                        ds.commit().unwrap();
                    }
                }
            });
        }
    });
    let listing = model::listing(&ds);
    assert!(listing.len() >= 3);
    drop((root, ds));
    pool.scrub().unwrap();
    pool.export().unwrap();
}

/// The number of operations between two commits. With more than one, a transaction group has several writes to one block; seeds with one
/// leave this case to `sync=always`.
fn commit_every(seed: u64) -> u64 {
    1 + seed % 8
}

/// Runs only as the victim: performs the operations of a seed, and acknowledges them after each commit, until it is killed.
#[test]
#[ignore = "started by the test below as a separate process"]
fn victim() {
    let Ok(vdev) = std::env::var("POOLWRIGHT_TREE_VDEV") else { return };
    let seed: u64 = std::env::var("POOLWRIGHT_TREE_SEED").unwrap().parse().unwrap();
    let (_pool, ds) = create(&PathBuf::from(vdev), "kills");
    let always = commit_every(seed) == 1;
    if always {
        ds.set("sync", "always").unwrap();
    }
    let mut random = Random(seed);
    let out = std::io::stdout();
    for n in 1u64.. {
        let _ = model::apply(&ds, &random.op());
        if n % commit_every(seed) != 0 {
            continue;
        }
        if !always {
            ds.commit().unwrap();
        }
        writeln!(out.lock(), "\nacknowledged {n}").unwrap();
    }
}

/// The difference between the tree and the model after `n` operations.
fn differs_from(ds: &Dataset, seed: u64, n: u64) -> Option<String> {
    let (mut random, mut model) = (Random(seed), Model::new());
    for _ in 0..n {
        let _ = model.apply(&random.op());
    }
    let mut is = model::listing(ds);
    let mut should = model.listing();
    // Ignore the owner of the root, which is the user of this process, and times, which a replay sets.
    for item in is.values_mut().chain(should.values_mut()) {
        item.mtime = None;
    }
    for listing in [&mut is, &mut should] {
        let root = listing.get_mut("/").unwrap();
        (root.mode, root.uid) = (0, 0);
    }
    let short = |item: Option<&model::Item>| {
        item.map(|i| {
            format!(
                "mode {:o} uid {} {} bytes {:?} {:?}",
                i.mode,
                i.uid,
                i.content.len(),
                i.xattrs.keys(),
                i.entries
            )
        })
    };
    let paths = is.keys().chain(should.keys());
    let mut different = paths.filter(|path| is.get(*path) != should.get(*path));
    different.next().map(|path| {
        format!("after {n}: {path} is {:?}, should be {:?}", short(is.get(path)), short(should.get(path)))
    })
}

/// After the import, the tree is exactly that of the last acknowledged operation, or of an operation between it and the next commit.
#[test]
fn names_survive_a_kill() {
    let kills = std::env::var("POOLWRIGHT_KILLS").ok().and_then(|s| s.parse().ok()).unwrap_or(8u64);
    let (mut acknowledged, mut replayed) = (0, 0);
    for i in 0..kills {
        let dir = tempfile::tempdir().unwrap();
        let vdev = dir.path().join("vdev");
        let seed = 1000 + i;
        let env =
            [("POOLWRIGHT_TREE_VDEV", vdev.to_str().unwrap()), ("POOLWRIGHT_TREE_SEED", &seed.to_string())];
        let n = common::run_and_kill(&env, 20 + 137 * (i % 11));
        let pool = Pool::import(engine(), &[vdev], false).unwrap();
        let ds = pool.open_dataset("d").unwrap();
        let wrong: Vec<_> = (n..=n + commit_every(seed)).map_while(|k| differs_from(&ds, seed, k)).collect();
        assert!(wrong.len() as u64 <= commit_every(seed), "seed {seed}: {wrong:#?}");
        acknowledged += n;
        replayed += ds.replayed();
        drop(ds);
        pool.scrub().unwrap();
        assert_eq!(pool.stats().unwrap().checksum_errors, 0);
        pool.export().unwrap();
    }
    println!("{kills} kills, {acknowledged} operations acknowledged, {replayed} log records replayed");
    assert!(replayed > 0, "no log was ever replayed, so the test showed nothing");
}
