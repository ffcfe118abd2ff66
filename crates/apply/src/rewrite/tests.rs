//! The owner of a dataset renames its directories and puts links and fifos in the place of its files while this process copies them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use poolwright_base::directory::Directory;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use super::*;

/// How long each test goes on.
const DURATION: Duration = Duration::from_secs(2);
const SECRET: &str = "of another user";

/// A directory of another user, and what it contained.
struct Outside {
    dir: tempfile::TempDir,
    before: Vec<(PathBuf, String)>,
}

impl Outside {
    /// It has a file of each name.
    fn new(names: &[&str]) -> Outside {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(dir.path().join(name), SECRET).unwrap();
        }
        Outside { before: state(dir.path()), dir }
    }

    fn check(&self) {
        assert_eq!(state(self.dir.path()), self.before);
    }
}

/// The entries of a directory with their contents and attributes.
fn state(dir: &Path) -> Vec<(PathBuf, String)> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = paths.chain([dir.to_owned()]).map(|path| (path.clone(), describe(&path))).collect();
    all.sort();
    all
}

fn describe(path: &Path) -> String {
    let meta = fs::symlink_metadata(path).unwrap();
    let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    let text = fs::read_to_string(path).unwrap_or_default();
    format!("{:o} {}:{} {times:?} {} {text}", meta.mode(), meta.uid(), meta.gid(), meta.nlink())
}

/// Exchanges the names `a` and `b` in a directory.
fn exchange(dir: &Path, a: &str, b: &str) {
    let _ = renameat_with(CWD, dir.join(a), CWD, dir.join(b), RenameFlags::EXCHANGE);
}

/// Does `work` again and again while another thread exchanges pairs of names in a directory.
fn while_exchanged(dir: &Path, pairs: &[(&str, &str)], mut work: impl FnMut()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (a, b) in pairs.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                exchange(dir, a, b);
            }
        });
        let start = Instant::now();
        while start.elapsed() < DURATION {
            work();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Whether a regular file of a tree has text of the other user.
fn has_secret(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()).any(|entry| {
        let kind = entry.file_type().unwrap();
        let path = entry.path();
        (kind.is_dir() && has_secret(&path))
            || (kind.is_file() && fs::read_to_string(path).unwrap_or_default().contains(SECRET))
    })
}

/// A tree with what could be exchanged for its directory `sub` and the files in it.
fn tree(dir: &Path, outside: &Path) {
    fs::create_dir(dir.join("sub")).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(dir.join(name), name.repeat(5000)).unwrap();
        fs::write(dir.join("sub").join(name), name.repeat(5000)).unwrap();
        fs::hard_link(dir.join("sub").join(name), dir.join(format!("{name}2"))).unwrap();
    }
    symlink(outside, dir.join("link")).unwrap();
    symlink(outside.join("a"), dir.join("file_link")).unwrap();
    mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

const PAIRS: [(&str, &str); 4] = [("sub", "link"), ("a", "file_link"), ("b", "fifo"), ("link", "c")];

#[test]
fn files_are_copied_and_replaced_only_within_the_dataset() {
    let (dir, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outside = Outside::new(&["a", "b", "c"]);
    tree(dir.path(), outside.dir.path());
    symlink(outside.dir.path(), dir.path().join("hidden_link")).unwrap();
    let pairs = [&PAIRS[..], &[(".copies", "hidden_link")]].concat();
    let (mut tried, mut committed) = (0, 0);
    while_exchanged(dir.path(), &pairs, || {
        let root = Directory::open(dir.path()).unwrap();
        let records = records.path().join("records");
        let mut copies = Copies::open(root, ".copies", &records, Vec::new()).unwrap();
        let Ok(scan) = copies.scan() else { return };
        for file in scan.files.values() {
            let _ = copies.update(file, &mut |_| Ok(()));
            tried += 1;
            committed += u64::from(copies.commit(file).is_ok());
        }
        let _ = copies.restore_times(&scan.directories);
        let _ = copies.remove_stale(&scan);
        let _ = copies.remove_dir();
    });
    outside.check();
    assert!(!has_secret(dir.path()));
    assert!(tried > 0);
    println!("{committed} of {tried} files were replaced");
}

#[test]
fn trees_are_copied_only_within_their_directories() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outside = Outside::new(&["a", "b", "c"]);
    tree(from.path(), outside.dir.path());
    tree(to.path(), outside.dir.path());
    let mut copied = 0;
    while_exchanged(from.path(), &PAIRS, || {
        while_exchanged_once(to.path());
        let (from, to) = (Directory::open(from.path()).unwrap(), Directory::open(to.path()).unwrap());
        let mut copier = TreeCopier::new(|_| {
            // Between the calls that open a directory and those that use a name in it.
            while_exchanged_once(to.path());
            Ok(())
        });
        copied += u64::from(copier.copy(&from, &to).is_ok());
        let _ = copier.compare(&from, &to);
    });
    outside.check();
    assert!(!has_secret(to.path()));
    println!("{copied} copies were complete");
}

fn while_exchanged_once(dir: &Path) {
    PAIRS.iter().for_each(|(a, b)| exchange(dir, a, b));
}

/// What the owner does when a file is opened: the hidden directory gets another name, and its name is a link.
#[test]
fn copies_go_into_the_hidden_directory_whatever_its_name_is() {
    let (dir, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outside = Outside::new(&[]);
    fs::write(dir.path().join("first"), vec![1; 100_000]).unwrap();
    fs::write(dir.path().join("second"), vec![2; 100_000]).unwrap();
    let root = Directory::open(dir.path()).unwrap();
    let mut copies = Copies::open(root, ".copies", &records.path().join("records"), Vec::new()).unwrap();
    let scan = copies.scan().unwrap();
    let files: Vec<_> = scan.files.values().collect();
    copies.update(files[0], &mut |_| Ok(())).unwrap();
    fs::rename(dir.path().join(".copies"), dir.path().join("aside")).unwrap();
    symlink(outside.dir.path(), dir.path().join(".copies")).unwrap();
    copies.update(files[1], &mut |_| Ok(())).unwrap();
    outside.check();
    assert_eq!(fs::read_dir(dir.path().join("aside")).unwrap().count(), 2);
    assert!(files.iter().all(|file| copies.is_copied(file)));
    assert!(copies.remove_dir().unwrap_err().is_refusal());
    let owner = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(owner(&dir.path().join("aside")), 0o700);
}
