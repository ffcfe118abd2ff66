//! The mount as a whole: refusals, busy mounts, observers.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex};

use common::Fixture;
use poolwright_mount::proto::Opcode;
use poolwright_mount::{Error, Mount, Observer, Operation, Options};

#[test]
fn in_use() {
    let Some(t) = Fixture::new("busy", Options::default()) else { return };
    let mut file = File::create(t.at("f")).unwrap();
    assert!(matches!(t.mount().unmount(), Err(Error::Busy(_))));
    file.write_all(b"goes on").unwrap();
    assert_eq!(fs::read(t.at("f")).unwrap(), b"goes on");
    drop(file);
    t.mount().unmount().unwrap();
    assert!(!t.at("f").exists(), "the directory below is empty");
    t.mount().unmount().unwrap(); // unmounting again succeeds
}

#[test]
fn checking_for_use_changes_nothing() {
    let Some(t) = Fixture::new("idle", Options::default()) else { return };
    for _ in 0..3 {
        t.mount().check_idle(&[]).unwrap();
        t.mount().check_idle(&[std::path::Path::new("/nonexistent")]).unwrap();
        assert!(t.mount().is_mounted() && !t.mount().is_ending());
    }
    let file = File::create(t.at("f")).unwrap();
    let below = t.at("dir");
    fs::create_dir(&below).unwrap();
    for inside in [&[][..], &[below.as_path()][..]] {
        assert!(matches!(t.mount().check_idle(inside), Err(Error::Busy(_))));
        assert!(t.mount().is_mounted());
    }
    drop(file);
    t.mount().check_idle(&[]).unwrap();
    t.mount().unmount().unwrap();
    assert!(!t.mount().is_mounted() && t.mount().is_ending());
    t.mount().check_idle(&[]).unwrap();
}

#[test]
fn existing_contents_are_covered_only_on_request() {
    let Some(t) = Fixture::new("covered", Options::default()) else { return };
    let full = t.vdev().parent().unwrap().join("full");
    fs::create_dir_all(full.join("below")).unwrap();
    let other = || {
        drop(t.pool().create_dataset("other", &Default::default()));
        t.pool().open_dataset("other").unwrap()
    };
    let start = |path: &std::path::Path, overlay| {
        let options = Options { overlay, ..Options::default() };
        Mount::start(t.pool(), &other(), path, &options)
    };
    assert!(matches!(start(&full, false), Err(Error::NotEmpty { .. })));
    assert!(matches!(start(&t.root(), false), Err(Error::Covered { .. })));
    let over = start(&full, true).unwrap();
    assert!(!full.join("below").exists());
    over.unmount().unwrap();
    assert!(full.join("below").exists());
}

#[test]
fn out_of_sight() {
    let Some(mut t) = Fixture::new("detach", Options::default()) else { return };
    let mut file = File::create(t.at("f")).unwrap();
    t.mount().detach().unwrap();
    assert!(!t.at("f").exists());
    file.write_all(b"goes on").unwrap();
    drop(file);
    t.mount().wait().unwrap();
    t.again();
    assert_eq!(fs::read(t.at("f")).unwrap(), b"goes on");
}

#[test]
fn unmounted_by_others() {
    let Some(mut t) = Fixture::new("others", Options::default()) else { return };
    if !common::root("unmounted_by_others") {
        return;
    }
    fs::write(t.at("f"), b"kept").unwrap();
    rustix::mount::unmount(t.root(), rustix::mount::UnmountFlags::empty()).unwrap();
    t.mount().wait().unwrap();
    t.again();
    assert_eq!(fs::read(t.at("f")).unwrap(), b"kept");
}

#[test]
fn invalid_mount_points_are_refused() {
    let Some(t) = Fixture::new("places", Options::default()) else { return };
    let start = |path: &std::path::Path| {
        let why = Mount::start(t.pool(), t.dataset(), path, &Options::default()).unwrap_err();
        assert!(matches!(why, Error::MountPoint { .. }), "{why}");
        why.to_string()
    };
    assert!(start(&t.at("none")).contains("mkdir"));
    fs::write(t.at("file"), b"").unwrap();
    assert!(start(&t.at("file")).contains("not a directory"));
}

#[derive(Default)]
struct Log(Mutex<Vec<Seen>>);

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    op: Opcode,
    object: u64,
    result: u64,
    at: (u64, u64),
    name: Option<String>,
    errno: i32,
    latency: u64,
}

impl Observer for Log {
    fn operation(&self, o: &Operation<'_>) {
        self.0.lock().unwrap().push(Seen {
            op: o.op,
            object: o.object,
            result: o.result,
            at: (o.offset, o.length),
            name: o.name.map(|n| n.to_str().unwrap().to_owned()),
            errno: o.errno,
            latency: o.latency,
        });
    }
}

#[test]
fn watched() {
    let log = Arc::new(Log::default());
    let Some(t) = Fixture::new("watched", Options { observer: Some(log.clone()), ..Options::default() })
    else {
        return;
    };
    let file = File::options().read(true).write(true).create_new(true).open(t.at("table")).unwrap();
    file.write_all_at(&[7; 5000], 100).unwrap();
    let mut buf = [0; 3000];
    file.read_exact_at(&mut buf, 200).unwrap();
    file.sync_data().unwrap();
    file.set_len(50).unwrap();
    let inode = file.metadata().unwrap().ino();
    fs::rename(t.at("table"), t.at("other")).unwrap();
    assert!(fs::metadata(t.at("nothing")).is_err());
    let all = log.0.lock().unwrap().clone();
    let one = |op| all.iter().find(|s| s.op == op).unwrap_or_else(|| panic!("no {op:?} in {all:?}"));
    let root = fs::metadata(t.root()).unwrap().ino();
    let create = one(Opcode::Create);
    assert_eq!((create.object, create.result, create.name.as_deref()), (root, inode, Some("table")));
    let (write, read) = (one(Opcode::Write), one(Opcode::Read));
    assert_eq!((write.object, write.at, write.errno), (inode, (100, 5000), 0));
    assert_eq!((read.object, read.at), (inode, (200, 3000)));
    assert!(read.latency > 0 && one(Opcode::Fsync).object == inode);
    assert!(all.iter().any(|s| s.op == Opcode::Setattr && s.at.1 == 50));
    assert_eq!(one(Opcode::Rename).name.as_deref(), Some("table"));
    let missing = all.iter().find(|s| s.name.as_deref() == Some("nothing")).unwrap();
    assert_eq!((missing.op, missing.result), (Opcode::Lookup, 0));
}
