//! The directories of a database, and the datasets that they are on.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};

use poolwright_base::directory::Directory;
use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_base::{cannot, quoted};
use poolwright_trace::layout::linked_directories;
use poolwright_zfs::datasets::{is_dataset, of_mount, pool_of};

use crate::Result;
use crate::database::LocatedDatabase;
use crate::error::refused;

/// The hidden directory of a mounted dataset with its snapshots.
pub const SNAPSHOTS: &str = ".zfs/snapshot";

/// A directory of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseDir {
    /// Its path, absolute and without symbolic links.
    pub path: PathBuf,
    /// The mount of its dataset.
    pub mount: MountEntry,
    /// Its dataset.
    pub dataset: String,
}

impl DatabaseDir {
    /// The directory in a snapshot of its dataset.
    pub fn in_snapshot(&self, snapshot: &str) -> PathBuf {
        let relative = self.path.strip_prefix(&self.mount.point).unwrap_or(Path::new(""));
        let root = self.mount.point.join(SNAPSHOTS).join(snapshot);
        if relative.as_os_str().is_empty() { root } else { root.join(relative) }
    }

    fn open_snapshot(&self, snapshot: &str) -> Result<File> {
        let dir = self.in_snapshot(snapshot);
        // The database's user can have put a fifo in its place before the snapshot, which would block.
        let open = Directory::open(&dir).and_then(|dir| dir.try_clone_file());
        let open = open.map_err(cannot("open", &dir))?;
        let root = self.mount.point.join(SNAPSHOTS).join(snapshot);
        let name = format!("{}@{snapshot}", self.dataset);
        let is_shown = match of_mount(&self.mount) {
            Some(admin) => admin.shows_snapshot(&name, &root)?,
            None => true,
        };
        if !is_shown || entries(&dir)?.is_empty() && !entries(&self.path)?.is_empty() {
            return refused(format!(
                "{} looks empty, and {} is not: the snapshot {name} could not be mounted",
                quoted(&dir),
                quoted(&self.path)
            ));
        }
        Ok(open)
    }
}

/// The entries of a directory, without that of the snapshots.
fn entries(dir: &Path) -> Result<Vec<DirEntry>> {
    let listed = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<_>>);
    let mut entries: Vec<DirEntry> = listed.map_err(cannot("list", dir))?;
    entries.retain(|entry| entry.file_name() != ".zfs");
    Ok(entries)
}

fn has_file(dir: &Path) -> Result<bool> {
    for entry in entries(dir)? {
        let kind = entry.file_type().map_err(cannot("inspect", dir))?;
        if kind.is_file() || kind.is_dir() && has_file(&entry.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// All directories of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseDirs {
    /// Sorted by path, so that a directory comes before those in it.
    pub all: Vec<DatabaseDir>,
}

impl DatabaseDirs {
    /// Finds the directories: those that the user names, those to which the database's links lead, and the datasets that are mounted
    /// in them.
    ///
    /// # Errors
    /// A refusal if one is not on a dataset, or the datasets are of several pools: no snapshot is atomic over several pools.
    pub fn find(paths: &[PathBuf], database: &LocatedDatabase) -> Result<DatabaseDirs> {
        let mounts = mountinfo::read()?;
        let mut wanted: BTreeSet<PathBuf> = paths.iter().cloned().collect();
        for link in linked_directories(&database.root) {
            wanted.insert(canonical(&link)?);
        }
        for path in wanted.clone() {
            for mount in mountinfo::below(&mounts, &path).filter(|mount| !is_snapshot(mount)) {
                wanted.insert(mount.point.clone());
            }
        }
        let all: Vec<DatabaseDir> =
            wanted.into_iter().map(|path| source(path, &mounts)).collect::<Result<_>>()?;
        let is_covered = |of: &DatabaseDir| {
            all.iter().any(|other| {
                other.path != of.path && of.path.starts_with(&other.path) && other.mount == of.mount
            })
        };
        let kept: Vec<DatabaseDir> = all.iter().filter(|of| !is_covered(of)).cloned().collect();
        let sources = DatabaseDirs { all: kept };
        sources.check_pool()?;
        Ok(sources)
    }

    /// Refuses a mount that belongs to another pool than the one that is queried by this name: pools of different users can have the same
    /// name.
    ///
    /// # Errors
    /// A refusal; or if a pool cannot be queried.
    pub fn check_mounts(&self) -> Result<()> {
        for source in &self.all {
            let Some(admin) = of_mount(&source.mount) else { continue };
            let asked = admin.mount_of(&source.dataset)?;
            if asked.is_none_or(|mount| mount.device != source.mount.device) {
                let path = quoted(&source.path);
                return refused(format!(
                    "{path} is on a mount of another pool with the name of {}",
                    source.dataset
                ));
            }
        }
        Ok(())
    }

    fn check_pool(&self) -> Result<()> {
        let Some(first) = self.all.first() else { return refused("no directory is named") };
        let is_other = |of: &&DatabaseDir| {
            pool_of(&of.dataset) != pool_of(&first.dataset) || of.mount.file_system != first.mount.file_system
        };
        match self.all.iter().find(is_other) {
            None => Ok(()),
            Some(other) => refused(format!(
                "{} is on {} and {} on {}: no snapshot is atomic over two pools\nhint: move the database's directories to \
                 datasets of one pool",
                quoted(&first.path),
                first.dataset,
                quoted(&other.path),
                other.dataset
            )),
        }
    }

    /// The datasets, each once.
    pub fn datasets(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.all.iter().map(|source| &source.dataset).collect();
        names.into_iter().cloned().collect()
    }

    /// Opens the directories as they are in a snapshot, so that the kernel does not unmount it.
    ///
    /// # Errors
    /// A refusal if one looks empty because the snapshot could not be mounted; or if it cannot be read.
    pub fn open_snapshots(&self, snapshot: &str) -> Result<Vec<File>> {
        self.all.iter().map(|source| source.open_snapshot(snapshot)).collect()
    }

    /// Whether a regular file is in one of the directories, as they are in a snapshot.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn have_files(&self, snapshot: &str) -> Result<bool> {
        for source in &self.all {
            if has_file(&source.in_snapshot(snapshot))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The paths.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.all.iter().map(|source| source.path.clone()).collect()
    }

    /// Whether a path is in one of the directories.
    pub fn contain(&self, path: &Path) -> bool {
        self.all.iter().any(|source| path.starts_with(&source.path))
    }
}

/// A path as the user gave it, absolute and without symbolic links.
///
/// # Errors
/// If it does not exist; a refusal if it is not a directory.
pub fn canonical(path: &Path) -> Result<PathBuf> {
    let found = path.canonicalize().map_err(cannot("find", path))?;
    if !found.is_dir() {
        return refused(format!("{} is not a directory", quoted(path)));
    }
    Ok(found)
}

/// Whether a mount is of a snapshot, which the kernel mounts when it is accessed.
fn is_snapshot(mount: &MountEntry) -> bool {
    is_dataset(mount) && mount.source.to_string_lossy().contains('@')
}

fn source(path: PathBuf, mounts: &[MountEntry]) -> Result<DatabaseDir> {
    let mount = mountinfo::containing(mounts, &path).filter(|mount| is_dataset(mount));
    let Some(mount) = mount else {
        let found = mountinfo::containing(mounts, &path).map_or_else(String::new, MountEntry::describe);
        return refused(format!("{} is not on a dataset but on {found}", quoted(&path)));
    };
    if mount.root != Path::new("/") || is_snapshot(mount) {
        return refused(format!("{} is not on the mount of a whole dataset", quoted(&path)));
    }
    let dataset = mount.source.to_string_lossy().into_owned();
    Ok(DatabaseDir { path, mount: mount.clone(), dataset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::DatabaseKind;

    #[test]
    fn a_directory_on_no_dataset_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = canonical(dir.path()).unwrap();
        let database = LocatedDatabase { kind: DatabaseKind::None, root: path.clone() };
        let refusal = DatabaseDirs::find(std::slice::from_ref(&path), &database).unwrap_err();
        assert!(refusal.is_refusal() && refusal.to_string().contains("is not on a dataset"), "{refusal}");
        std::fs::write(path.join("file"), "").unwrap();
        assert!(canonical(&path.join("file")).unwrap_err().is_refusal());
        assert!(!canonical(&path.join("none")).unwrap_err().is_refusal());
    }

    #[test]
    fn a_fifo_in_the_place_of_a_directory_does_not_block() {
        let (dir, (ended, wait)) = (tempfile::tempdir().unwrap(), std::sync::mpsc::channel());
        let point = canonical(dir.path()).unwrap();
        let table = format!("36 35 0:40 / {} rw - ext4 disk rw", point.display());
        let mount = mountinfo::parse(table.as_bytes()).remove(0);
        let source = DatabaseDir { path: point.join("db"), mount, dataset: "tank/db".to_owned() };
        let planted = source.in_snapshot("s");
        std::fs::create_dir_all(planted.parent().unwrap()).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &planted, mode).unwrap();
        std::thread::spawn(move || ended.send(source.open_snapshot("s").is_err()));
        assert_eq!(wait.recv_timeout(std::time::Duration::from_secs(300)), Ok(true));
    }

    #[test]
    fn datasets_of_two_pools_are_refused_by_name() {
        let source = |path: &str, dataset: &str| DatabaseDir {
            path: path.into(),
            mount: mountinfo::parse(format!("36 35 0:40 / {path} rw - zfs {dataset} rw").as_bytes())
                .remove(0),
            dataset: dataset.to_owned(),
        };
        let of = |all: Vec<DatabaseDir>| DatabaseDirs { all };
        let one = of(vec![source("/db", "tank/db"), source("/db/wal", "tank/wal")]);
        one.check_pool().unwrap();
        assert_eq!(one.datasets(), ["tank/db", "tank/wal"]);
        assert_eq!(one.all[1].in_snapshot("s"), Path::new("/db/wal/.zfs/snapshot/s"));
        let two = of(vec![source("/db", "tank/db"), source("/wal", "log/wal")]).check_pool().unwrap_err();
        assert!(two.is_refusal() && two.to_string().contains("/wal on log/wal"), "{two}");
        let sub = DatabaseDir { path: "/db/15/main".into(), ..source("/db", "tank/db") };
        assert_eq!(sub.in_snapshot("s"), Path::new("/db/.zfs/snapshot/s/15/main"));
    }
}
