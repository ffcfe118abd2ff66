use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// A directory with a file in a mount point, and the mount point of a new dataset beside it.
fn relocation(dir: &Path) -> (Relocation, HiddenDir) {
    let (mountpoint, new) = (dir.join("db"), dir.join("db-wal"));
    fs::create_dir_all(mountpoint.join("wal/sub")).unwrap();
    fs::write(mountpoint.join("wal/sub/segment"), "records").unwrap();
    fs::create_dir_all(&new).unwrap();
    let relocation = Relocation {
        directory: mountpoint.join("wal"),
        dataset: "tank/db/wal".to_owned(),
        mountpoint: new,
        settings: BTreeMap::new(),
    };
    let root = Directory::open(&mountpoint).unwrap();
    (relocation, HiddenDir::new(root, ".hidden", &dir.join("times")))
}

#[test]
fn a_directory_is_replaced_by_a_link_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (relocation, hidden) = relocation(dir.path());
    assert_eq!(relocation.state(hidden.mountpoint()).unwrap(), DirectoryState::Directory);
    for _ in 0..2 {
        relocation.replace(Direction::Apply, &hidden, 0).unwrap();
        assert_eq!(relocation.state(hidden.mountpoint()).unwrap(), DirectoryState::Link);
    }
    let old = hidden.names().unwrap();
    assert!(old.len() == 1 && hidden.path().join(&old[0]).join("sub/segment").exists(), "{old:?}");
    assert_eq!(relocation.scan(hidden.mountpoint()).unwrap().files.len(), 0, "the new dataset is empty");
    fs::rename(hidden.path().join(&old[0]), hidden.path().join(copy_name(0))).unwrap();
    for _ in 0..2 {
        relocation.replace(Direction::Undo, &hidden, 0).unwrap();
        assert_eq!(relocation.state(hidden.mountpoint()).unwrap(), DirectoryState::Directory);
    }
    assert_eq!(relocation.scan(hidden.mountpoint()).unwrap().files.len(), 1);
    hidden.remove().unwrap();
    assert!(!hidden.path().exists());
}

#[test]
fn a_crash_between_two_renames_is_finished_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let (relocation, hidden) = relocation(dir.path());
    hidden.make().unwrap();
    fs::rename(&relocation.directory, hidden.path().join("0.old")).unwrap();
    assert_eq!(relocation.state(hidden.mountpoint()).unwrap(), DirectoryState::Missing);
    relocation.replace(Direction::Apply, &hidden, 0).unwrap();
    assert_eq!(relocation.state(hidden.mountpoint()).unwrap(), DirectoryState::Link);
    fs::remove_file(&relocation.directory).unwrap();
    fs::rename(hidden.path().join("0.old"), hidden.path().join(copy_name(0))).unwrap();
    relocation.replace(Direction::Undo, &hidden, 0).unwrap();
    assert_eq!(relocation.state(hidden.mountpoint()).unwrap(), DirectoryState::Directory);
}

#[test]
fn another_link_or_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (relocation, hidden) = relocation(dir.path());
    fs::remove_dir_all(&relocation.directory).unwrap();
    symlink("/elsewhere", &relocation.directory).unwrap();
    for direction in [Direction::Apply, Direction::Undo] {
        assert!(matches!(relocation.replace(direction, &hidden, 0), Err(crate::Error::Refused(_))));
    }
    fs::remove_file(&relocation.directory).unwrap();
    fs::write(&relocation.directory, "").unwrap();
    assert!(matches!(relocation.state(hidden.mountpoint()), Err(crate::Error::Refused(_))));
}
