//! Names and attributes as seen through the kernel.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};

use common::{Fixture, errno, names, pattern};
use poolwright_mount::Options;
use poolwright_mount::proto::Opcode;
use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, XattrFlags};

#[test]
fn tree() {
    let Some(mut t) = Fixture::new("tree", Options::default()) else { return };
    fs::write(t.at("a"), b"first").unwrap();
    assert_eq!(fs::read(t.at("a")).unwrap(), b"first");
    assert_eq!(errno(fs::read(t.at("none"))), libc::ENOENT);
    assert_eq!(errno(OpenOptions::new().write(true).create_new(true).open(t.at("a"))), libc::EEXIST);

    fs::create_dir_all(t.at("x/y/z")).unwrap();
    assert_eq!(fs::metadata(t.at("x")).unwrap().nlink(), 3);
    fs::rename(t.at("a"), t.at("x/y/b")).unwrap();
    assert_eq!(errno(fs::metadata(t.at("a"))), libc::ENOENT);
    assert_eq!(errno(fs::remove_dir(t.at("x/y"))), libc::ENOTEMPTY);
    assert_eq!(errno(fs::rename(t.at("x"), t.at("x/y/z/x"))), libc::EINVAL);

    fs::hard_link(t.at("x/y/b"), t.at("second")).unwrap();
    let (one, two) = (fs::metadata(t.at("x/y/b")).unwrap(), fs::metadata(t.at("second")).unwrap());
    assert_eq!((one.ino(), one.nlink()), (two.ino(), 2));
    fs::remove_file(t.at("x/y/b")).unwrap();
    assert_eq!(fs::metadata(t.at("second")).unwrap().nlink(), 1);

    let long = format!("/{}", "target/".repeat(60));
    symlink(&long, t.at("link")).unwrap();
    symlink("second", t.at("near")).unwrap();
    assert_eq!(fs::read_link(t.at("link")).unwrap().to_str().unwrap(), long);
    assert_eq!(fs::read(t.at("near")).unwrap(), b"first");

    for (name, kind) in [("pipe", FileType::Fifo), ("sock", FileType::Socket)] {
        rustix::fs::mknodat(CWD, t.at(name), kind, Mode::from(0o640), 0).unwrap();
    }
    let made = fs::metadata(t.at("pipe")).unwrap();
    assert!(made.file_type().is_fifo() && made.mode() & 0o777 == 0o640);

    t.again();
    assert_eq!(names(&t.root()), ["link", "near", "pipe", "second", "sock", "x"]);
    assert_eq!(fs::read(t.at("near")).unwrap(), b"first");
    assert_eq!(fs::read_link(t.at("link")).unwrap().to_str().unwrap(), long);
    assert!(fs::metadata(t.at("sock")).unwrap().file_type().is_socket());
    assert_eq!(names(&t.at("x/y")), ["z"]);
    let counters = t.mount().counters();
    assert!(counters.ops(Opcode::Lookup) > 0 && counters.total() > counters.ops(Opcode::Lookup));
    t.end();
}

#[test]
fn rename_flags() {
    let Some(t) = Fixture::new("flags", Options::default()) else { return };
    let rename = |from: &str, to: &str, flags| {
        rustix::fs::renameat_with(CWD, t.at(from), CWD, t.at(to), flags).map_err(std::io::Error::from)
    };
    fs::write(t.at("a"), b"a").unwrap();
    fs::write(t.at("b"), b"b").unwrap();
    assert_eq!(errno(rename("a", "b", RenameFlags::NOREPLACE)), libc::EEXIST);
    rename("a", "c", RenameFlags::NOREPLACE).unwrap();
    rename("c", "b", RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(t.at("b")).unwrap(), fs::read(t.at("c")).unwrap()), (b"a".to_vec(), b"b".to_vec()));
    fs::create_dir_all(t.at("d/e")).unwrap();
    rename("b", "d/e", RenameFlags::EXCHANGE).unwrap();
    assert!(fs::metadata(t.at("b")).unwrap().is_dir() && fs::read(t.at("d/e")).unwrap() == b"a");
    assert_eq!(fs::metadata(t.at("d")).unwrap().nlink(), 2);
    assert_eq!(errno(rename("none", "b", RenameFlags::EXCHANGE)), libc::ENOENT);

    // A file that is replaced while it is open continues to exist.
    let mut open = File::open(t.at("c")).unwrap();
    fs::rename(t.at("d/e"), t.at("c")).unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), open.metadata().unwrap().nlink()), ("b", 0));
    assert_eq!(fs::read(t.at("c")).unwrap(), b"a");
}

#[test]
fn without_a_name() {
    let Some(t) = Fixture::new("nameless", Options::default()) else { return };
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(t.at("gone")).unwrap();
    file.write_all(b"before").unwrap();
    fs::remove_file(t.at("gone")).unwrap();
    let inode = file.metadata().unwrap().ino();
    // While the file is open, its number is not reused.
    for n in 0..200 {
        let other = File::create(t.at(&format!("n{n}"))).unwrap();
        assert_ne!(other.metadata().unwrap().ino(), inode);
    }
    file.write_all(b" and after").unwrap();
    file.set_len(12).unwrap();
    file.sync_all().unwrap();
    use std::os::unix::fs::FileExt;
    let mut text = [0; 12];
    file.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"before and a");

    let mut open = OpenOptions::new();
    let tmp = open.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(t.root()).unwrap();
    (&tmp).write_all(b"made whole, then named").unwrap();
    assert_eq!(tmp.metadata().unwrap().nlink(), 0);
    use std::os::fd::AsRawFd;
    let through = format!("/proc/self/fd/{}", tmp.as_raw_fd());
    rustix::fs::linkat(CWD, through, CWD, t.at("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    drop(tmp);
    assert_eq!(fs::read(t.at("named")).unwrap(), b"made whole, then named");
    assert_eq!(fs::metadata(t.at("named")).unwrap().nlink(), 1);
}

#[test]
fn attributes() {
    if !common::root("attributes") {
        return;
    }
    let Some(mut t) = Fixture::new("attrs", Options::default()) else { return };
    let file = t.at("f");
    fs::write(&file, pattern(100_000, 1)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4751)).unwrap();
    let stamp = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times =
        Timestamps { last_access: stamp(-5, 1), last_modification: stamp(2_000_000_000, 123_456_789) };
    rustix::fs::utimensat(CWD, &file, &times, AtFlags::empty()).unwrap();
    let check = |meta: fs::Metadata| {
        assert_eq!((meta.mode(), meta.size()), (0o104_751, 100_000));
        assert_eq!((meta.atime(), meta.atime_nsec()), (-5, 1));
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (2_000_000_000, 123_456_789));
    };
    check(fs::metadata(&file).unwrap());
    assert!(fs::metadata(&file).unwrap().created().is_ok(), "statx gives the time of birth");

    std::os::unix::fs::chown(&file, Some(1234), Some(4321)).unwrap();
    let meta = fs::metadata(&file).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (1234, 4321));
    assert_eq!(meta.mode() & 0o7777, 0o751, "a change of owner clears the set-user-id bit");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4751)).unwrap();
    rustix::fs::utimensat(CWD, &file, &times, AtFlags::empty()).unwrap();

    fs::create_dir(t.at("group")).unwrap();
    std::os::unix::fs::chown(t.at("group"), None, Some(777)).unwrap();
    fs::set_permissions(t.at("group"), fs::Permissions::from_mode(0o2775)).unwrap();
    fs::create_dir(t.at("group/sub")).unwrap();
    File::create(t.at("group/sub/f")).unwrap();
    assert_eq!(fs::metadata(t.at("group/sub/f")).unwrap().gid(), 777);

    t.again();
    check(fs::metadata(t.at("f")).unwrap());
    assert_eq!(fs::read(t.at("f")).unwrap(), pattern(100_000, 1));
    let room = rustix::fs::statvfs(t.root()).unwrap();
    assert!(room.f_bavail > 0 && room.f_blocks >= room.f_bavail && room.f_namemax == 255);
}

#[test]
fn extended_attributes() {
    if !common::root("extended_attributes") {
        return;
    }
    let Some(mut t) = Fixture::new("xattrs", Options::default()) else { return };
    let file = t.at("f");
    fs::write(&file, b"x").unwrap();
    let set = |name: &str, value: &[u8], flags| {
        rustix::fs::setxattr(&file, name, value, flags).map_err(std::io::Error::from)
    };
    let get = |name: &str| {
        let mut value = vec![0u8; 65_536];
        let len = rustix::fs::getxattr(&file, name, &mut value[..]).map_err(std::io::Error::from)?;
        value.truncate(len);
        std::io::Result::Ok(value)
    };
    set("user.small", b"value", XattrFlags::empty()).unwrap();
    set("user.large", &pattern(20_000, 5), XattrFlags::empty()).unwrap();
    set("trusted.t", b"", XattrFlags::CREATE).unwrap();
    assert_eq!(errno(set("user.small", b"no", XattrFlags::CREATE)), libc::EEXIST);
    assert_eq!(errno(set("user.none", b"no", XattrFlags::REPLACE)), libc::ENODATA);
    assert_eq!(errno(set("system.posix_acl_access", b"\x02\0\0\0", XattrFlags::empty())), libc::EOPNOTSUPP);
    set("user.small", b"another", XattrFlags::REPLACE).unwrap();
    rustix::fs::removexattr(&file, "trusted.t").unwrap();
    t.again();
    assert_eq!(get("user.small").unwrap(), b"another");
    assert_eq!(get("user.large").unwrap(), pattern(20_000, 5));
    assert_eq!(errno(get("trusted.t")), libc::ENODATA);
    let mut list = vec![0u8; 4096];
    let len = rustix::fs::listxattr(&file, &mut list[..]).unwrap();
    let mut all: Vec<_> = list[..len].split(|b| *b == 0).filter(|n| !n.is_empty()).collect();
    all.sort();
    assert_eq!(all, [b"user.large", b"user.small"]);
}

#[test]
fn many_names() {
    let Some(mut t) = Fixture::new("many", Options::default()) else { return };
    const N: usize = 5000;
    fs::create_dir(t.at("d")).unwrap();
    for n in 0..N {
        File::create(t.at(&format!("d/file {n:05}"))).unwrap();
    }
    // Remove every second file as soon as it is listed. The others must still be listed, and none twice.
    let (mut seen, mut removed) = (Vec::new(), 0);
    for entry in fs::read_dir(t.at("d")).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.file_type().unwrap().is_file());
        seen.push(entry.file_name().into_string().unwrap());
        if seen.len() % 2 == 0 {
            fs::remove_file(entry.path()).unwrap();
            removed += 1;
        }
    }
    seen.sort();
    let expected: Vec<_> = (0..N).map(|n| format!("file {n:05}")).collect();
    assert_eq!(seen, expected);
    assert_eq!(names(&t.at("d")).len(), N - removed);
    t.again();
    let left = names(&t.at("d"));
    assert_eq!(left.len(), N - removed);
    for name in left {
        fs::remove_file(t.at("d").join(name)).unwrap();
    }
    fs::remove_dir(t.at("d")).unwrap();
}

/// A listing omits attributes that the kernel has cached, and still shows every change.
#[test]
fn listed_again() {
    let Some(mut t) = Fixture::new("again", Options::default()) else { return };
    const N: usize = 300;
    for n in 0..N {
        fs::create_dir_all(t.at(&format!("d/{n:03}"))).unwrap();
    }
    let list = |t: &Fixture| -> BTreeMap<String, (u64, u64, u32)> {
        let entries = fs::read_dir(t.at("d")).unwrap().map(Result::unwrap);
        let told = |m: fs::Metadata| (m.ino(), m.nlink(), m.mode() & 0o777);
        entries.map(|e| (e.file_name().into_string().unwrap(), told(e.metadata().unwrap()))).collect()
    };
    let asked = |t: &Fixture| {
        let counters = t.mount().counters();
        counters.ops(Opcode::Lookup) + counters.ops(Opcode::Getattr)
    };
    t.again();
    let first = list(&t);
    assert_eq!(first.len(), N);
    let before = asked(&t);
    assert!(before < N as u64 / 2, "the listing lacks attributes: {before} requests for them");
    assert_eq!(list(&t), first);
    assert!(asked(&t) - before < N as u64 / 2, "the attributes are still cached");

    fs::set_permissions(t.at("d/007"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(t.at("d/008/sub")).unwrap();
    fs::rename(t.at("d/009"), t.at("d/new")).unwrap();
    fs::remove_dir(t.at("d/010")).unwrap();
    fs::create_dir(t.at("d/010")).unwrap();
    let mut changed = first.clone();
    changed.get_mut("007").unwrap().2 = 0o700;
    changed.get_mut("008").unwrap().1 = 3;
    let moved = changed.remove("009").unwrap();
    changed.insert("new".to_owned(), moved);
    changed.get_mut("010").unwrap().0 = fs::metadata(t.at("d/010")).unwrap().ino();
    assert_eq!(list(&t), changed);
}

#[test]
fn snapshots() {
    let Some(t) = Fixture::new("snaps", Options::default()) else { return };
    fs::create_dir(t.at("dir")).unwrap();
    fs::write(t.at("dir/f"), b"then").unwrap();
    t.dataset().snapshot("monday").unwrap();
    fs::write(t.at("dir/f"), b"now").unwrap();
    // The property takes effect at once, even if the kernel caches listings.
    for (value, listed) in [("hidden", false), ("visible", true), ("hidden", false), ("visible", true)] {
        t.dataset().set("snapdir", value).unwrap();
        assert_eq!(names(&t.root()).contains(&".zfs".to_owned()), listed, "{value}");
    }
    assert_eq!(names(&t.at(".zfs")), ["snapshot"]);
    assert_eq!(names(&t.at(".zfs/snapshot")), ["monday"]);
    assert_eq!(fs::read(t.at(".zfs/snapshot/monday/dir/f")).unwrap(), b"then");
    assert_eq!(fs::read(t.at("dir/f")).unwrap(), b"now");
    assert_eq!(names(&t.at(".zfs/snapshot/monday")), ["dir"]);
    assert_eq!(errno(fs::write(t.at(".zfs/snapshot/monday/dir/f"), b"no")), libc::EROFS);
    assert_eq!(errno(fs::remove_dir(t.at(".zfs/snapshot/monday/dir"))), libc::EROFS);
    assert_eq!(errno(fs::metadata(t.at(".zfs/snapshot/tuesday"))), libc::ENOENT);
    // The kernel caches the name for another second.
    t.dataset().set("snapdir", "disabled").unwrap();
    let began = std::time::Instant::now();
    while fs::metadata(t.at(".zfs")).is_ok() {
        assert!(began.elapsed().as_secs() < 60, "snapdir=disabled hides nothing");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    t.dataset().set("snapdir", "hidden").unwrap();
    assert_eq!(names(&t.at(".zfs/snapshot")), ["monday"]);
}

#[test]
fn nothing_changes_read_only() {
    let Some(mut t) = Fixture::new("ro", Options::default()) else { return };
    fs::write(t.at("f"), b"kept").unwrap();
    t.settings(Options { readonly: true, ..Options::default() });
    t.again();
    assert_eq!(fs::read(t.at("f")).unwrap(), b"kept");
    assert_eq!(errno(fs::write(t.at("f"), b"no")), libc::EROFS);
    assert_eq!(errno(fs::create_dir(t.at("d"))), libc::EROFS);
    assert_eq!(errno(fs::remove_file(t.at("f"))), libc::EROFS);
}

/// io_uring is used if it is requested and the kernel offers it, and serves like the device. The kernel's parameter keeps
/// its previous value.
#[test]
fn transports() {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    // A mount of another test may have enabled it for a moment, and then holds the lock.
    let switch = || {
        let Ok(file) = fs::File::open(SWITCH) else { return String::new() };
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockShared).unwrap();
        std::io::read_to_string(file).unwrap()
    };
    let before = switch();
    let on = before.trim() == "Y" || fs::OpenOptions::new().write(true).open(SWITCH).is_ok();
    for uring in [false, true] {
        let name = if uring { "ring" } else { "dev" };
        let Some(mut t) = Fixture::new(name, Options { uring, ..Options::default() }) else { return };
        if std::env::var_os("POOLWRIGHT_MOUNT_DEVICE").is_none() {
            assert_eq!(t.mount().uses_uring(), uring && on);
            assert_eq!(switch(), before);
        }
        // From all CPUs, with requests and answers of many lengths.
        std::thread::scope(|s| {
            for n in 0..8 {
                let dir = t.at(&format!("d{n}"));
                s.spawn(move || {
                    fs::create_dir(&dir).unwrap();
                    for len in [0, 1, 4095, 70_000, 1 << 20, 3_000_000] {
                        let file = dir.join(len.to_string());
                        fs::write(&file, pattern(len, n)).unwrap();
                        assert!(fs::read(&file).unwrap() == pattern(len, n), "{len} bytes");
                    }
                    assert_eq!(names(&dir).len(), 6);
                });
            }
        });
        if std::env::var_os("POOLWRIGHT_MOUNT_DEVICE").is_none() {
            assert_eq!(t.mount().uses_uring(), uring && on, "the kernel has not rejected it since");
        }
        t.end();
    }
}
