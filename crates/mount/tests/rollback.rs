//! Rollback of a dataset while programs have files of it open.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use common::{Fixture, errno, names, pattern};
use poolwright_mount::{Caching, Options};

const MODES: [Caching; 3] = [Caching::Through, Caching::Pages, Caching::Writeback];

/// A mounted dataset of which only the mount has a handle.
fn mounted(test: &str, caching: Caching) -> Option<Fixture> {
    let name = format!("{test}-{caching:?}").to_lowercase();
    let mut t = Fixture::new(&name, Options { caching, ..Options::default() })?;
    t.let_go();
    Some(t)
}

fn snapshot(t: &Fixture, name: &str) {
    t.mount().dataset().unwrap().snapshot(name).unwrap();
}

fn rw(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn all(file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; 1 << 20];
    let len = file.read_at(&mut bytes, 0)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// Everything below a directory: the contents of files, `None` for directories.
fn tree(dir: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for name in names(dir) {
        let path = dir.join(&name);
        if path.is_dir() {
            found.extend(tree(&path).into_iter().map(|(below, what)| (format!("{name}/{below}"), what)));
            found.insert(name, None);
        } else {
            found.insert(name, Some(fs::read(&path).unwrap()));
        }
    }
    found
}

/// Changes contents, attributes and names.
fn change(t: &Fixture) {
    fs::write(t.at("longer"), pattern(300_000, 1)).unwrap();
    fs::write(t.at("shorter"), b"short").unwrap();
    fs::set_permissions(t.at("kept"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(t.at("removed")).unwrap();
    fs::rename(t.at("moved"), t.at("dir/moved")).unwrap();
    fs::remove_file(t.at("replaced")).unwrap();
    fs::write(t.at("replaced"), b"another").unwrap();
    fs::rename(t.at("dir/inner"), t.at("outer")).unwrap();
    fs::write(t.at("outer/new"), b"new").unwrap();
    fs::remove_dir_all(t.at("goes")).unwrap();
    fs::write(t.at("goes"), b"a file now").unwrap();
    fs::create_dir(t.at("fresh")).unwrap();
    fs::write(t.at("fresh/f"), b"f").unwrap();
    fs::hard_link(t.at("kept"), t.at("second")).unwrap();
    fs::remove_file(t.at("link")).unwrap();
}

/// Creates a file, and writes to it in a later tick of the kernel's clock. A kernel that delays writes does not send the time of a write in
/// the tick of the creation, so that the engine takes the time at which the data arrives.
fn create(path: &Path, bytes: &[u8]) {
    let mut file = fs::File::create(path).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    file.write_all(bytes).unwrap();
}

#[test]
fn names_and_attributes_are_those_of_the_snapshot() {
    for caching in MODES {
        let Some(mut t) = mounted("names", caching) else { return };
        for name in ["kept", "longer", "shorter", "removed", "moved", "replaced"] {
            create(&t.at(name), format!("{name} before, {}", "x".repeat(5000)).as_bytes());
        }
        fs::create_dir_all(t.at("dir/inner")).unwrap();
        create(&t.at("dir/inner/deep"), b"deep");
        fs::create_dir(t.at("goes")).unwrap();
        fs::write(t.at("goes/file"), b"1").unwrap();
        std::os::unix::fs::symlink("kept", t.at("link")).unwrap();
        let before = tree(&t.root());
        let stat = |t: &Fixture, name: &str| {
            let meta = fs::symlink_metadata(t.at(name)).unwrap();
            (meta.ino(), meta.len(), meta.mode(), meta.mtime_nsec(), meta.nlink())
        };
        let known =
            ["kept", "longer", "shorter", "removed", "moved", "replaced", "dir", "dir/inner/deep", "link"];
        let attributes: Vec<_> = known.iter().map(|name| stat(&t, name)).collect();
        snapshot(&t, "s");

        change(&t);
        // Make the kernel cache, for an hour, the names that exist and some that do not.
        drop(tree(&t.root()));
        for name in ["removed", "moved", "dir/inner", "dir/inner/deep", "goes/file", "link"] {
            assert!(fs::symlink_metadata(t.at(name)).is_err(), "{name}");
        }

        t.mount().roll_back("s").unwrap();
        for name in ["fresh", "fresh/f", "second", "dir/moved", "outer", "outer/new"] {
            assert_eq!(errno(fs::symlink_metadata(t.at(name))), libc::ENOENT, "{caching:?}: {name}");
        }
        let now: Vec<_> = known.iter().map(|name| stat(&t, name)).collect();
        assert_eq!(now, attributes, "{caching:?}");
        assert_eq!(tree(&t.root()), before, "{caching:?}");
        // The file system continues to work.
        fs::write(t.at("removed"), b"again").unwrap();
        fs::write(t.at("after"), b"after").unwrap();
        fs::remove_dir_all(t.at("dir")).unwrap();
        t.again();
        assert_eq!(fs::read(t.at("removed")).unwrap(), b"again");
        assert_eq!(fs::read(t.at("after")).unwrap(), b"after");
        assert_eq!(fs::read(t.at("replaced")).unwrap(), before["replaced"].clone().unwrap());
        assert!(!t.at("dir").exists());
        t.end();
    }
}

/// Checks open files of the snapshot, and writes to the first one.
fn have_old_content(kept: &File, removed: &File, replaced: &File) {
    assert_eq!(all(kept).unwrap(), b"kept before");
    assert_eq!(kept.metadata().unwrap().len(), 11);
    kept.write_all_at(b"KEPT", 0).unwrap();
    kept.sync_all().unwrap();
    assert_eq!(all(removed).unwrap(), b"removed before");
    assert_eq!(all(replaced).unwrap(), b"replaced before");
    assert_eq!(removed.metadata().unwrap().nlink(), 1);
}

#[test]
fn open_files_go_on_or_fail() {
    for caching in MODES {
        let Some(mut t) = mounted("open", caching) else { return };
        for name in ["kept", "removed", "replaced", "log"] {
            fs::write(t.at(name), format!("{name} before")).unwrap();
        }
        fs::create_dir(t.at("dir")).unwrap();
        snapshot(&t, "s");
        let kept = rw(&t.at("kept"));
        let removed = rw(&t.at("removed"));
        let replaced = rw(&t.at("replaced"));
        let mut log = OpenOptions::new().append(true).open(t.at("log")).unwrap();
        let dir = File::open(t.at("dir")).unwrap();
        fs::remove_file(t.at("removed")).unwrap();
        fs::remove_file(t.at("replaced")).unwrap();
        let new = rw(&t.at("replaced"));
        new.write_all_at(b"new", 0).unwrap();
        let made = rw(&t.at("made"));
        made.write_all_at(b"made", 0).unwrap();
        kept.write_all_at(&pattern(100_000, 2), 0).unwrap();
        log.write_all(b", and more").unwrap();
        log.sync_all().unwrap();

        t.mount().roll_back("s").unwrap();
        for gone in [&new, &made] {
            assert_eq!(errno(all(gone)), libc::EIO);
            if caching != Caching::Writeback {
                assert_eq!(errno(gone.write_at(b"x", 0)), libc::EIO);
            }
            assert!(gone.sync_all().is_err());
        }
        if caching == Caching::Writeback {
            // The kernel would keep the length that it has cached.
            assert_eq!(errno(all(&kept)), libc::EIO);
        } else {
            have_old_content(&kept, &removed, &replaced);
            // The kernel would write at the old end of the file.
            assert_eq!(errno(log.write(b"!")), libc::EIO);
        }
        assert_eq!(dir.metadata().unwrap().ino(), fs::metadata(t.at("dir")).unwrap().ino());
        OpenOptions::new().append(true).open(t.at("log")).unwrap().write_all(b"!").unwrap();
        assert_eq!(fs::read(t.at("log")).unwrap(), b"log before!");
        let kept_now = if caching == Caching::Writeback { "kept before" } else { "KEPT before" };
        assert_eq!(fs::read_to_string(t.at("kept")).unwrap(), kept_now);

        // New files reuse the numbers; the handles of the old files must not reach them.
        for i in 0..200 {
            fs::write(t.at(&format!("next-{i}")), b"secret").unwrap();
        }
        for gone in [&new, &made] {
            assert_eq!(errno(all(gone)), libc::EIO);
        }
        drop((kept, removed, replaced, log, dir, new, made));
        t.again();
        assert_eq!(fs::read_to_string(t.at("kept")).unwrap(), kept_now);
        assert_eq!(fs::read(t.at("next-199")).unwrap(), b"secret");
        t.end();
    }
}

#[test]
fn pages_of_the_old_tree_do_not_get_into_the_new_one() {
    for caching in [Caching::Through, Caching::Pages] {
        let Some(mut t) = mounted("pages", caching) else { return };
        let old = pattern(64 << 10, 3);
        fs::write(t.at("f"), &old).unwrap();
        snapshot(&t, "s");
        let file = rw(&t.at("f"));
        common::map::shared(&file, 64 << 10, |bytes| {
            bytes.fill(7);
            t.mount().roll_back("s").unwrap();
            assert_eq!(bytes, &old, "{caching:?}: a mapping shows the file as it is");
            bytes[0] = !old[0];
        });
        let mut expected = old.clone();
        expected[0] = !old[0];
        assert_eq!(fs::read(t.at("f")).unwrap(), expected, "{caching:?}");
        drop(file);
        t.again();
        assert_eq!(fs::read(t.at("f")).unwrap(), expected, "{caching:?}");
        t.end();
    }
    let Some(t) = mounted("pages", Caching::Writeback) else { return };
    fs::write(t.at("f"), b"old").unwrap();
    snapshot(&t, "s");
    let file = rw(&t.at("f"));
    file.write_all_at(&[7; 9000], 0).unwrap(); // only in the kernel's page cache
    t.mount().roll_back("s").unwrap();
    assert_eq!(fs::read(t.at("f")).unwrap(), b"old");
    drop(file);
    assert_eq!((fs::read(t.at("f")).unwrap(), fs::metadata(t.at("f")).unwrap().len()), (b"old".to_vec(), 3));
}

#[test]
fn a_working_directory_and_a_snapshot_in_use_stay() {
    let Some(t) = mounted("cwd", Caching::Pages) else { return };
    fs::create_dir_all(t.at("a/b")).unwrap();
    fs::write(t.at("a/b/f"), b"one").unwrap();
    snapshot(&t, "s");
    let inside = t.at(".zfs/snapshot/s/a/b/f");
    let shown = File::open(&inside).unwrap();
    // A shell whose working directory is there during the rollback.
    let mut shell = std::process::Command::new("sh")
        .args(["-c", "read go; pwd -P; cat f; cat ../../new"])
        .current_dir(t.at("a/b"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    fs::write(t.at("a/b/f"), b"two, longer").unwrap();
    fs::write(t.at("new"), b"new").unwrap();
    t.mount().roll_back("s").unwrap();
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut output = String::new();
    shell.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    shell.wait().unwrap();
    let here = t.root().canonicalize().unwrap().join("a/b");
    assert_eq!(output, format!("{}\none", here.display()));
    assert_eq!(all(&shown).unwrap(), b"one");
    assert_eq!(fs::read(&inside).unwrap(), b"one");
}

#[test]
fn refused_while_another_handle_to_the_dataset_exists() {
    let Some(t) = mounted("held", Caching::Through) else { return };
    fs::write(t.at("f"), b"one").unwrap();
    snapshot(&t, "s");
    let file = rw(&t.at("f"));
    file.write_all_at(b"two", 0).unwrap();
    let held = t.mount().dataset().unwrap();
    assert!(t.mount().roll_back("s").unwrap_err().to_string().contains("busy"));
    assert_eq!(all(&file).unwrap(), b"two", "the mount works as before");
    file.write_all_at(b"2", 0).unwrap();
    snapshot(&t, "later");
    drop(held);
    assert_eq!(t.mount().roll_back("s").unwrap_err().errno(), Some(libc::EEXIST), "not the latest");
    assert_eq!(t.mount().roll_back("none").unwrap_err().errno(), Some(libc::ENOENT));
    assert_eq!(fs::read(t.at("f")).unwrap(), b"2wo");
    assert_eq!(all(&file).unwrap(), b"2wo");
    t.mount().roll_back("later").unwrap();
    assert_eq!(all(&file).unwrap(), b"2wo");
}

/// Programs write, create, rename and remove files during rollbacks. Requests on their files may fail but must not hang,
/// and a rollback must discard their changes.
#[test]
fn again_and_again_under_load() {
    for caching in MODES {
        let Some(mut t) = mounted("load", caching) else { return };
        for i in 0..20 {
            fs::write(t.at(&format!("w{i}")), pattern(40_000, i)).unwrap();
        }
        fs::create_dir(t.at("busy")).unwrap();
        let before = tree(&t.root());
        snapshot(&t, "s");
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|threads| {
            for worker in 0..4u64 {
                let (root, stop, done) = (t.root(), &stop, &done);
                threads.spawn(move || {
                    let mut open: Option<File> = None;
                    for turn in worker.. {
                        if stop.load(Relaxed) {
                            return;
                        }
                        if one_turn(&root, worker, turn, &mut open).is_ok() {
                            done.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
            for _ in 0..8 {
                let was = done.load(Relaxed);
                while done.load(Relaxed) < was + 100 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                t.mount().roll_back("s").unwrap();
            }
            stop.store(true, Relaxed);
        });
        t.mount().roll_back("s").unwrap();
        assert_eq!(tree(&t.root()), before, "{caching:?}");
        t.again();
        assert_eq!(tree(&t.root()), before, "{caching:?}");
        t.end();
    }
}

fn one_turn(root: &Path, worker: u64, turn: u64, open: &mut Option<File>) -> std::io::Result<()> {
    let own = root.join(format!("busy/{worker}-{}", turn % 7));
    match turn % 9 {
        0 => {
            *open =
                Some(OpenOptions::new().write(true).read(true).open(root.join(format!("w{}", turn % 20)))?)
        }
        1 => fs::write(&own, pattern(10_000, turn))?,
        2 => fs::rename(&own, root.join(format!("busy/{worker}-moved")))?,
        3 => fs::remove_file(root.join(format!("busy/{worker}-moved")))?,
        4 => assert!(fs::read_dir(root.join("busy"))?.count() < 100),
        5 => assert!(fs::metadata(root.join(format!("w{}", turn % 20)))?.is_file()),
        6 => open.as_ref().map_or(Ok(()), File::sync_data)?,
        _ => {
            if let Some(file) = open {
                file.write_all_at(&pattern(5000, turn), turn % 30_000)?;
                file.read_exact_at(&mut [0; 4096], 0)?;
            }
        }
    }
    Ok(())
}
