//! Changes of vdevs and clones, requested from a process that has the pool open.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use poolwright_openzfs::{Config, Engine, Pool, ScanKind, Spec};
use poolwright_zfs::user::label::Label;
use poolwright_zfs::user::{
    Fault, LocalPool, Mounts, NewVdevFile, PoolInfo, Reply, Request, Value, VdevChange, find,
};

/// Time limit of waits, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A pool that a process keeps open, without mounts.
struct Owner;

impl Mounts for Owner {
    fn owns(&self) -> bool {
        true
    }
}

struct Open {
    dir: tempfile::TempDir,
    pool: LocalPool,
}

impl Open {
    fn new(name: &str, vdevs: &str) -> Open {
        let dir = tempfile::tempdir().unwrap();
        let word = |word: &str| match word {
            "mirror" | "cache" | "spare" => word.to_owned(),
            file => format!("{}:128M", dir.path().join(file).display()),
        };
        let words: Vec<String> = vdevs.split_whitespace().map(word).collect();
        let groups = Spec::parse_vdevs(&words).unwrap();
        let engine = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).unwrap();
        let pool = Pool::create(engine, &Spec { name: name.into(), ashift: 12, groups }).unwrap();
        Open { dir, pool: LocalPool::new(pool, SystemTime::now(), Arc::new(Owner)) }
    }

    fn at(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    fn new_file(&self, file: &str, bytes: Option<u64>) -> NewVdevFile {
        NewVdevFile { file: self.at(file), bytes }
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, request: &Request) -> Result<T, Fault> {
        match self.pool.answer(request) {
            Reply::Ok(value) => Ok(serde_json::from_value(value).unwrap()),
            Reply::Error(fault) => Err(fault),
        }
    }

    fn change(&self, request: &Request) -> VdevChange {
        self.ask(request).unwrap()
    }

    #[track_caller]
    fn refused(&self, request: &Request) -> (i32, String) {
        let fault = self.ask::<VdevChange>(request).unwrap_err();
        (fault.errno, fault.message)
    }

    fn write(&self, bytes: usize) {
        let ds = self.pool.pool().open_dataset("").unwrap();
        let mut x = 1u64;
        let mut one = || {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 56) as u8
        };
        let content: Vec<u8> = (0..bytes).map(|_| one()).collect();
        ds.create_file("f").unwrap().write_at(0, &content).unwrap();
        drop(ds);
        self.pool.pool().sync().unwrap();
    }
}

#[test]
fn a_replaced_file_is_forgotten_in_the_background() {
    let open = Open::new("forgetting", "mirror a b cache x");
    open.write(20_000_000);
    let new = Some(open.new_file("c", None));
    let change = open.change(&Request::Replace { device: open.at("a"), new, wait: false });
    assert_eq!(change.resilver.unwrap().kind, ScanKind::Resilver);
    let began = Instant::now();
    while open.pool.files().contains(&open.at("a")) {
        assert!(began.elapsed() < PATIENCE, "the old file is detached");
        // The owner of a mounted pool does this at short intervals.
        assert_eq!(open.pool.file_faults(), []);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(Label::read(&open.at("a")).unwrap(), None, "a detached file is not part of a pool");
    fs::remove_file(open.at("a")).unwrap();
    assert_eq!(open.pool.file_faults(), []);
    assert_eq!(open.pool.files(), [open.at("b"), open.at("c"), open.at("x")]);
    assert!(open.pool.status().unwrap().file_faults.is_empty());
    let files = open.pool.files();
    open.pool.into_pool().export().unwrap();
    let found = find::check_files("forgetting", &files).unwrap();
    assert_eq!((found.missing.len(), found.files.len()), (0, 3));
}

#[test]
fn a_spare_replaces_a_lost_file() {
    let open = Open::new("has-spare", "mirror a b spare s");
    open.write(1_000_000);
    let spare = |info: &PoolInfo| info.vdevs.iter().find(|vdev| vdev.spare).unwrap().state.clone();
    assert_eq!(spare(&open.pool.status().unwrap()), "AVAIL");
    fs::remove_file(open.at("b")).unwrap();
    assert!(open.pool.file_faults().iter().all(|fault| !fault.lost));
    let new = Some(open.new_file("s", None));
    let change = open.change(&Request::Replace { device: open.at("b"), new, wait: true });
    assert_eq!((change.replacing, &change.spares_in_use), (false, &vec![open.at("s")]));
    assert_eq!(spare(&open.pool.status().unwrap()), "INUSE");
    let change = open.change(&Request::Detach { device: open.at("b") });
    assert_eq!((change.files, change.spares_in_use), (vec![open.at("a"), open.at("s")], Vec::new()));
    assert_eq!(open.pool.file_faults(), []);
    let info = open.pool.status().unwrap();
    assert_eq!((info.state(), info.vdevs.iter().any(|vdev| vdev.spare)), ("ONLINE", false));
    open.pool.into_pool().export().unwrap();
}

#[test]
fn a_lost_spare_is_not_needed() {
    let open = Open::new("lone", "a spare s");
    open.write(1_000_000);
    fs::remove_file(open.at("s")).unwrap();
    let faults = open.pool.file_faults();
    assert_eq!((faults.len(), faults[0].lost), (1, false));
    open.ask::<serde_json::Value>(&Request::Create {
        dataset: "lone/d".into(),
        settings: [].into(),
        parents: false,
    })
    .unwrap();
    let info = open.pool.status().unwrap();
    let spare = info.vdevs.iter().find(|vdev| vdev.spare).unwrap();
    assert_eq!((info.state(), spare.state.as_str()), ("ONLINE", "FAULTED"));
    open.pool.into_pool().export().unwrap();
}

#[test]
fn a_lost_file_is_replaced_while_the_pool_is_open() {
    let open = Open::new("repaired", "mirror a b");
    open.write(1_000_000);
    fs::remove_file(open.at("a")).unwrap();
    let faults = open.pool.file_faults();
    assert_eq!((faults.len(), faults[0].lost), (1, false));
    let change = open.change(&Request::Replace { device: open.at("a"), new: None, wait: true });
    assert!(!change.replacing);
    assert_eq!(open.pool.file_faults(), []);
    assert_eq!(open.pool.files(), [open.at("b"), open.at("a")]);
    let info = open.pool.status().unwrap();
    assert_eq!(info.state(), "ONLINE");
    let change = open.change(&Request::Detach { device: open.at("b") });
    assert_eq!(change.files, [open.at("a")]);
    open.pool.into_pool().export().unwrap();
}

#[test]
fn refusals_have_an_errno_and_a_hint() {
    let open = Open::new("refused", "mirror a b cache x spare s");
    fs::write(open.at("full"), "precious").unwrap();
    let attach = |device: &str, file: &str, bytes| Request::Attach {
        device: open.at(device),
        new: open.new_file(file, bytes),
        wait: true,
    };
    let groups = |words: &[String]| Spec::parse_added(words).unwrap();
    let path = |file: &str| open.at(file).to_str().unwrap().to_owned();
    let add = |words: &[String]| Request::Add { groups: groups(words) };
    let detach = |device: &str| Request::Detach { device: open.at(device) };
    let remove = |device: &str| Request::Remove { device: open.at(device) };
    for (request, errno, fragment) in [
        (add(&[path("c")]), libc::EPERM, "adding vdevs to refused: mismatched redundancy: "),
        (add(&["cache".into(), path("a")]), libc::EBUSY, "a is a vdev of the pool already\nhint: "),
        (add(&["log".into(), path("full")]), libc::ENOTEMPTY, "full exists and is not empty"),
        (Request::Add { groups: Vec::new() }, libc::EINVAL, "name at least one file"),
        (attach("z", "c", None), libc::ENODEV, "z\nhint: its files are "),
        (attach("x", "c", None), libc::ENOTSUP, "x is a cache vdev, which cannot be mirrored"),
        (attach("a", "c", Some(64 << 20)), libc::EOVERFLOW, "would have 67108864 bytes"),
        (attach("a", "full", None), libc::ENOTEMPTY, "full exists and is not empty"),
        (detach("z"), libc::ENODEV, "detaching a vdev of refused: no vdev of the pool is "),
        (detach("x"), libc::ENOTSUP, "x is a cache vdev, which cannot be detached"),
        (detach("s"), libc::ENOTSUP, "s is an available spare, which cannot be detached\nhint: "),
        (remove("z"), libc::ENODEV, "removing a vdev of refused: no vdev of the pool is "),
        (
            remove("a"),
            libc::ENOTSUP,
            "a holds data of the pool: only available spares, cache vdevs and logs can be",
        ),
        (attach("s", "c", None), libc::ENOTSUP, "s is an available spare, which cannot be mirrored"),
        (attach("a", "s", None), libc::EBUSY, "s is a vdev of the pool already"),
    ] {
        let (found, message) = open.refused(&request);
        assert!(found == errno && message.contains(fragment), "{request:?}: {found} {message}");
    }
    assert!(!open.at("c").exists());
    assert_eq!(fs::read(open.at("full")).unwrap(), b"precious");
    open.pool.into_pool().export().unwrap();
}

#[test]
fn a_snapshot_with_a_clone_stays() {
    let open = Open::new("cloning", "a");
    let done = |request: &Request| open.ask::<serde_json::Value>(request).map(drop);
    let create =
        |dataset: &str| Request::Create { dataset: dataset.into(), settings: [].into(), parents: false };
    let clone = |snapshot: &str, dataset: &str, parents: bool| Request::Clone {
        snapshot: snapshot.into(),
        dataset: dataset.into(),
        settings: [("recordsize".to_owned(), "16K".to_owned())].into(),
        parents,
    };
    let destroy = |name: &str| Request::Destroy { name: name.into(), recursive: true };
    done(&create("cloning/d")).unwrap();
    done(&Request::Snapshot { name: "cloning/d@s".into(), recursive: false }).unwrap();
    done(&clone("cloning/d@s", "cloning/x/copy", true)).unwrap();
    for (request, errno, fragment) in [
        (clone("cloning/d@s", "cloning/x/copy", true), libc::EEXIST, "exists already"),
        (clone("cloning/d@none", "cloning/y", true), libc::ENOENT, "no such snapshot"),
        (clone("cloning/d@s", "cloning/y/z", false), libc::ENOENT, "its parent cloning/y does not exist"),
        (clone("cloning/d@s", "other/y", false), libc::EINVAL, "other/y is not in the pool cloning"),
        (destroy("cloning/d@s"), libc::EBUSY, "cloning/d@s has a clone: cloning/x/copy"),
        (destroy("cloning/d"), libc::EBUSY, "cloning/d@s has a clone: cloning/x/copy"),
        (Request::Promote { dataset: "cloning/d".into() }, libc::EINVAL, "cloning/d is not a clone"),
        (Request::Promote { dataset: "cloning/n".into() }, libc::ENOENT, "no such dataset"),
    ] {
        let fault = done(&request).unwrap_err();
        assert!(fault.errno == errno && fault.message.contains(fragment), "{request:?}: {fault:?}");
    }
    let bad = Request::Clone {
        snapshot: "cloning/d@s".into(),
        dataset: "cloning/bad".into(),
        settings: [("recordsize".to_owned(), "3K".to_owned())].into(),
        parents: false,
    };
    assert_eq!(done(&bad).unwrap_err().errno, libc::EINVAL);
    assert!(!open.pool.pool().list().unwrap().contains(&"cloning/bad".to_owned()), "nothing is left of it");

    let value = |dataset: &str, property: &str| {
        let get = Request::Get { dataset: dataset.to_owned(), properties: vec![property.to_owned()] };
        open.ask::<Vec<Value>>(&get).unwrap()[0].value.clone()
    };
    assert_eq!(value("cloning/x/copy", "origin"), "cloning/d@s");
    assert_eq!(
        (value("cloning/d", "origin"), value("cloning/x/copy", "recordsize")),
        ("-".into(), "16384".into())
    );
    done(&Request::Promote { dataset: "cloning/x/copy".into() }).unwrap();
    assert_eq!(value("cloning/d", "origin"), "cloning/x/copy@s");
    done(&destroy("cloning/d")).unwrap();
    done(&destroy("cloning/x")).unwrap();
    assert_eq!(open.pool.pool().list().unwrap(), ["cloning"]);
    open.pool.into_pool().export().unwrap();
}
