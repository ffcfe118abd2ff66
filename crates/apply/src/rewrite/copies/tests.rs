use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use super::*;

struct Dataset {
    dir: tempfile::TempDir,
    records: tempfile::TempDir,
}

impl Dataset {
    fn new() -> Dataset {
        let (dir, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/table"), vec![1; 100_000]).unwrap();
        fs::write(dir.path().join("log"), "entries").unwrap();
        fs::hard_link(dir.path().join("log"), dir.path().join("sub/log2")).unwrap();
        fs::hard_link(dir.path().join("log"), dir.path().join("sub/log3")).unwrap();
        Dataset { dir, records }
    }

    fn copies(&self) -> Copies {
        let root = Directory::open(self.dir.path()).unwrap();
        Copies::open(root, ".copies", &self.records.path().join("records"), Vec::new()).unwrap()
    }

    fn copy_of(&self, file: &FileEntry) -> PathBuf {
        self.at(".copies").join(name_of(file))
    }

    fn second_name(&self, file: &FileEntry) -> PathBuf {
        self.at(".copies").join(second_name_of(file))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn inodes(&self) -> Vec<u64> {
        ["log", "sub/log2", "sub/log3", "sub/table"]
            .map(|name| fs::metadata(self.at(name)).unwrap().ino())
            .to_vec()
    }
}

fn update_all(copies: &mut Copies) -> FileScan {
    let scan = copies.scan().unwrap();
    for file in scan.files.values() {
        copies.update(file, &mut |_| Ok(())).unwrap();
    }
    scan
}

#[test]
fn files_are_replaced_with_all_their_names() {
    let dataset = Dataset::new();
    let modified = || ["", "sub"].map(|name| fs::metadata(dataset.at(name)).unwrap().modified().unwrap());
    let (before, times) = (dataset.inodes(), modified());
    let mut copies = dataset.copies();
    let scan = update_all(&mut copies);
    assert!(scan.files.values().all(|file| copies.is_copied(file) && !copies.is_rewritten(file)));
    for file in scan.files.values() {
        copies.commit(file).unwrap();
    }
    assert!(copies.dir.names().unwrap().is_empty());
    copies.remove_dir().unwrap();
    copies.restore_times(&scan.directories).unwrap();
    let after = dataset.inodes();
    assert_eq!((after[0], after[0]), (after[1], after[2]), "still one file with three names");
    assert!(before.iter().zip(&after).all(|(before, after)| before != after));
    assert_eq!(fs::read(dataset.at("sub/table")).unwrap(), vec![1; 100_000]);
    assert_eq!(modified(), times);
    assert!(dataset.copies().scan().unwrap().files.values().all(|file| copies.is_rewritten(file)));
}

#[test]
fn a_changed_file_is_not_committed_until_its_copy_is_updated() {
    let dataset = Dataset::new();
    let mut copies = dataset.copies();
    update_all(&mut copies);
    let table = File::options().write(true).open(dataset.at("sub/table")).unwrap();
    table.write_all_at(&[2], 50_000).unwrap();
    let scan = copies.scan().unwrap();
    let changed: Vec<&FileEntry> = scan.files.values().filter(|file| !copies.is_copied(file)).collect();
    assert_eq!(changed.len(), 1);
    let refused = copies.commit(changed[0]).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("was changed"), "{refused}");
    update_all(&mut copies);
    let scan = copies.scan().unwrap();
    scan.files.values().for_each(|file| copies.commit(file).unwrap());
    assert_eq!(fs::read(dataset.at("sub/table")).unwrap()[50_000], 2);
}

#[test]
fn a_crash_between_the_names_of_a_file_is_continued() {
    for replaced in 0..3 {
        let dataset = Dataset::new();
        let mut copies = dataset.copies();
        let scan = update_all(&mut copies);
        let log = scan.files.values().find(|file| file.links == 3).unwrap();
        // What `commit` does, up to a point.
        let hidden = copies.dir.open().unwrap().unwrap();
        let place = EntryAt::new(copies.root(), "log");
        give_attributes(place, EntryAt::new(&hidden, &name_of(log)), log).unwrap();
        for name in &log.paths[1..=replaced.min(2)] {
            fs::hard_link(dataset.copy_of(log), dataset.second_name(log)).unwrap();
            if replaced > 0 {
                fs::rename(dataset.second_name(log), name).unwrap();
            }
        }
        drop(copies);

        let mut copies = dataset.copies();
        let scan = copies.scan().unwrap();
        for file in scan.files.values().filter(|file| !copies.is_rewritten(file)).cloned().collect::<Vec<_>>()
        {
            copies.update(&file, &mut |_| Ok(())).unwrap();
            copies.commit(&file).unwrap();
        }
        assert!(copies.dir.names().unwrap().is_empty(), "{replaced}");
        let inodes = dataset.inodes();
        assert_eq!((inodes[0], inodes[0]), (inodes[1], inodes[2]), "{replaced}");
        assert_eq!(fs::read(dataset.at("log")).unwrap(), b"entries");
    }
}

#[test]
fn two_versions_after_a_crash_are_not_mixed() {
    let dataset = Dataset::new();
    let mut copies = dataset.copies();
    let scan = update_all(&mut copies);
    let log = scan.files.values().find(|file| file.links == 3).unwrap();
    fs::hard_link(dataset.copy_of(log), dataset.second_name(log)).unwrap();
    fs::rename(dataset.second_name(log), &log.paths[2]).unwrap();
    fs::write(&log.paths[2], "changed").unwrap();
    let scan = copies.scan().unwrap();
    let old = scan.files.values().find(|file| file.paths.len() == 2).unwrap();
    let refused = copies.update(old, &mut |_| Ok(())).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert_eq!(fs::read(&log.paths[2]).unwrap(), b"changed");
    assert_eq!(fs::read(&log.paths[0]).unwrap(), b"entries");
}

#[test]
fn names_elsewhere_are_refused_and_stale_copies_removed() {
    let dataset = Dataset::new();
    let elsewhere = tempfile::tempdir_in(dataset.dir.path().parent().unwrap()).unwrap();
    fs::hard_link(dataset.at("sub/table"), elsewhere.path().join("other")).unwrap();
    let mut copies = dataset.copies();
    let scan = update_all(&mut copies);
    let table = scan.files.values().find(|file| file.links == 2).unwrap();
    let refused = copies.commit(table).unwrap_err().to_string();
    assert!(refused.contains("has 2 names, but only 1"), "{refused}");
    fs::remove_file(dataset.at("sub/table")).unwrap();
    copies.remove_stale(&copies.scan().unwrap()).unwrap();
    assert!(!dataset.copy_of(table).exists());
    assert!(!copies.dir.names().unwrap().is_empty());
    copies.remove_dir().unwrap();
    copies.remove_dir().unwrap();
    assert!(!copies.dir.path().exists());
}

#[test]
fn a_lost_copy_is_made_again() {
    let dataset = Dataset::new();
    let mut copies = dataset.copies();
    let scan = update_all(&mut copies);
    let table = scan.files.values().find(|file| file.links == 1).unwrap();
    let path = dataset.copy_of(table);
    // As after a crash that the record survived, but not all of the data.
    fs::write(&path, "short").unwrap();
    assert!(!copies.is_copied(table));
    fs::remove_file(&path).unwrap();
    assert!(!copies.is_copied(table));
    update_all(&mut copies);
    assert!(copies.is_copied(table));
    copies.commit(table).unwrap();
}

/// Until then, it must not count for the quota of the owner, and must not be a program of root with the owner's content.
#[test]
fn a_copy_gets_its_owner_and_mode_when_it_replaces_its_file() {
    let dataset = Dataset::new();
    let path = dataset.at("sub/table");
    if std::os::unix::fs::chown(&path, Some(12345), Some(54321)).is_err() {
        println!("skipped: only root can give a file away");
        return;
    }
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o6751)).unwrap();
    let attributes = |path: &Path| {
        let meta = fs::symlink_metadata(path).unwrap();
        (meta.uid(), meta.gid(), meta.mode() & 0o7777, meta.mtime_nsec())
    };
    let before = attributes(&path);
    let mut copies = dataset.copies();
    // The second time, the copy exists.
    for text in ["first", "second"] {
        fs::write(dataset.at("other"), text).unwrap();
        let scan = update_all(&mut copies);
        let table = scan.files.values().find(|file| file.links == 1 && file.paths[0] == path).unwrap();
        let (uid, gid, mode, _) = attributes(&dataset.copy_of(table));
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw(), 0o600);
        assert_eq!((uid, gid, mode), own);
    }
    copies.scan().unwrap().files.values().for_each(|file| copies.commit(file).unwrap());
    assert_eq!(attributes(&path), before);
}
