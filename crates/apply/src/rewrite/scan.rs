//! The files of a dataset.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{FileTimes, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poolwright_base::directory::Directory;
use poolwright_base::{cannot, quoted};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::attributes;
use super::entry::EntryAt;
use crate::error::refused;
use crate::{Error, Result};

/// Unit of `st_blocks` in bytes (`stat(2)`).
const SECTOR: u64 = 512;
/// The virtual directory of a dataset's snapshots.
const SNAPSHOTS: &str = ".zfs";

/// Identifies the state of a file: two equal identities mean that neither data nor attributes were changed in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Its inode number.
    pub inode: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Its modification time, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its change time, in nanoseconds since 1970.
    pub changed_ns: i64,
}

impl FileIdentity {
    /// The identity of a file with these attributes.
    pub fn of(meta: &Metadata) -> FileIdentity {
        FileIdentity {
            inode: meta.ino(),
            length: meta.len(),
            modified_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
            changed_ns: nanoseconds(meta.ctime(), meta.ctime_nsec()),
        }
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// A regular file with all its names.
#[derive(Clone, Debug)]
pub struct FileEntry {
    /// Its names in the dataset, sorted.
    pub paths: Vec<PathBuf>,
    /// Its state during the scan.
    pub identity: FileIdentity,
    /// The number of its names, in this dataset or hidden by a mount.
    pub links: u64,
    /// The size of its blocks in bytes (`st_blksize`, which OpenZFS fills with it).
    pub block_size: u64,
    /// Its allocated space in bytes.
    pub allocated: u64,
    /// The user and the group to whom it belongs.
    pub owner: (u32, u32),
}

impl FileEntry {
    /// Refuses a file that has names elsewhere: these would keep the old file.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_links(&self) -> Result<()> {
        let (path, found) = (&self.paths[0], self.paths.len());
        if found as u64 == self.links {
            return Ok(());
        }
        refused(format!(
            "{} has {} names, but only {found} of them can be reached in the dataset",
            quoted(path),
            self.links
        ))
    }
}

/// A directory with the times that renaming in it changes.
#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    /// Its path.
    pub path: PathBuf,
    /// Its modification time: seconds since 1970, and nanoseconds.
    pub modified: (i64, i64),
    /// Its access time: seconds since 1970, and nanoseconds.
    pub accessed: (i64, i64),
    /// Its change time: seconds since 1970, and nanoseconds.
    pub changed: (i64, i64),
}

impl DirectoryEntry {
    /// A directory with these attributes.
    pub(super) fn of(path: &Path, meta: &Metadata) -> DirectoryEntry {
        DirectoryEntry {
            path: path.to_owned(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            accessed: (meta.atime(), meta.atime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Its modification and access time.
    pub(super) fn times(&self) -> FileTimes {
        attributes::file_times(self.accessed, self.modified)
    }
}

/// The files and directories of a dataset.
#[derive(Clone, Debug, Default)]
pub struct FileScan {
    /// The regular files by inode number.
    pub files: BTreeMap<u64, FileEntry>,
    /// The directories, each after the one that contains it.
    pub directories: Vec<DirectoryEntry>,
}

impl FileScan {
    /// Lists the files of the dataset whose mount point is `root`, or of a directory in it, without `except` and what is below these
    /// paths. Other file systems are not entered and symbolic links not followed. A file that disappears during the scan is omitted.
    ///
    /// # Errors
    /// If a directory cannot be listed or a file cannot be inspected.
    pub fn of(root: &Directory, except: &[PathBuf]) -> Result<FileScan> {
        let top = root.metadata().map_err(cannot("inspect", root.path()))?;
        let mut scan = FileScan::default();
        scan.add_directory(root.path(), &top);
        let mut rest = vec![PathBuf::new()];
        while let Some(relative) = rest.pop() {
            let dir = match root.directory(&relative) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => continue,
                dir => dir.map_err(cannot("list", root.path().join(&relative)))?,
            };
            for name in dir.names().map_err(cannot("list", dir.path()))? {
                let path = dir.path().join(&name);
                let is_snapshots = relative.as_os_str().is_empty() && name == OsStr::new(SNAPSHOTS);
                if is_snapshots || except.contains(&path) {
                    continue;
                }
                let Some(meta) = EntryAt::new(&dir, &name).inspect()? else { continue };
                if meta.dev() != top.dev() {
                    continue;
                }
                if meta.is_dir() {
                    scan.add_directory(&path, &meta);
                    rest.push(relative.join(name));
                } else if meta.is_file() {
                    scan.add_file(path, &meta);
                }
            }
        }
        scan.files.values_mut().for_each(|file| file.paths.sort());
        Ok(scan)
    }

    fn add_directory(&mut self, path: &Path, meta: &Metadata) {
        self.directories.push(DirectoryEntry::of(path, meta));
    }

    fn add_file(&mut self, path: PathBuf, meta: &Metadata) {
        let file = self.files.entry(meta.ino()).or_insert_with(|| FileEntry {
            paths: Vec::new(),
            identity: FileIdentity::of(meta),
            links: meta.nlink(),
            block_size: meta.blksize(),
            allocated: meta.blocks() * SECTOR,
            owner: (meta.uid(), meta.gid()),
        });
        file.paths.push(path);
    }

    /// Refuses files that cannot be replaced because a directory that has them is immutable or append-only. A directory that has
    /// disappeared is left out.
    ///
    /// # Errors
    /// A refusal; the host's errors.
    pub fn check_directories<'f>(
        root: &Directory,
        files: impl IntoIterator<Item = &'f FileEntry>,
    ) -> Result<()> {
        let parents = files.into_iter().flat_map(|file| &file.paths).filter_map(|path| path.parent());
        // The hidden directory is created in the mount point.
        for path in parents.chain([root.path()]).collect::<BTreeSet<_>>() {
            let open = root.relative(path).and_then(|relative| root.directory(relative));
            match open.and_then(|dir| dir.try_clone_file()) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => {}
                open => attributes::check_flags(&open.map_err(cannot("open", path))?, path)?,
            }
        }
        Ok(())
    }

    /// Checks that every file has the block size of its dataset.
    ///
    /// # Errors
    /// [`Error::Different`] with the first file that has not.
    pub fn check_block_sizes(&self, is_right: impl Fn(&FileEntry) -> bool) -> Result<()> {
        let Some(file) = self.files.values().find(|file| !is_right(file)) else { return Ok(()) };
        let what = format!("in its block size: {} bytes", file.block_size);
        Err(Error::Different { path: file.paths[0].clone(), what })
    }

    /// A text that changes if any file or directory is written, created, removed or renamed.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for file in self.files.values() {
            let FileIdentity { inode, length, modified_ns, changed_ns } = file.identity;
            hash.update(format!("{inode} {length} {modified_ns} {changed_ns}\0"));
            for path in &file.paths {
                hash.update(path.as_os_str().as_bytes());
                hash.update(b"\0");
            }
        }
        let mut directories: Vec<_> =
            self.directories.iter().map(|of| (&of.path, of.modified, of.changed)).collect();
        directories.sort_unstable();
        for (path, modified, changed) in directories {
            hash.update(path.as_os_str().as_bytes());
            hash.update(format!("\0{modified:?} {changed:?}\0"));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As [`FileScan::digest`], with the paths below `root` and without inode numbers: that of a snapshot is equal to that of its dataset,
    /// wherever both are mounted, while nothing was written since.
    pub fn digest_below(&self, root: &Path) -> String {
        let below = |path: &Path| path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_owned();
        let mut lines = Vec::new();
        for file in self.files.values() {
            let FileIdentity { inode: _, length, modified_ns, changed_ns } = file.identity;
            let names: Vec<Vec<u8>> = file.paths.iter().map(|path| below(path)).collect();
            lines.push(
                [names.join(&0), format!("\0{length} {modified_ns} {changed_ns}\n").into_bytes()].concat(),
            );
        }
        for of in &self.directories {
            let times = format!("\0{:?} {:?}\n", of.modified, of.changed).into_bytes();
            lines.push([below(&of.path), times].concat());
        }
        lines.sort_unstable();
        let hash = lines.iter().fold(Sha256::new(), |hash, line| hash.chain_update(line));
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The sum of the files' lengths in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.identity.length).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

    use super::*;

    #[test]
    fn hard_links_are_one_file_and_other_things_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("sub/deep")).unwrap();
        fs::create_dir(at("hidden")).unwrap();
        fs::write(at("hidden/copy"), "x").unwrap();
        fs::write(at("sub/file"), "content").unwrap();
        fs::hard_link(at("sub/file"), at("link")).unwrap();
        fs::write(at("sub/deep/empty"), "").unwrap();
        std::os::unix::fs::symlink("/etc", at("symlink")).unwrap();
        let root = Directory::open(dir.path()).unwrap();
        let scan = FileScan::of(&root, &[at("hidden")]).unwrap();
        assert_eq!((scan.files.len(), scan.directories.len(), scan.bytes()), (2, 3, 7));
        let linked = scan.files.values().find(|file| file.links == 2).unwrap();
        assert_eq!(linked.paths, [at("link"), at("sub/file")]);
        let before = linked.identity;
        fs::write(at("sub/file"), "CONTENT").unwrap();
        let after = FileScan::of(&root, &[at("hidden")]).unwrap().files[&before.inode].identity;
        assert_ne!(before, after);
        let digest = || FileScan::of(&root, &[at("hidden")]).unwrap().digest();
        let unchanged = digest();
        assert_eq!(digest(), unchanged);
        fs::rename(at("sub/deep/empty"), at("sub/deep/other")).unwrap();
        assert_ne!(digest(), unchanged);
    }

    #[test]
    fn directories_whose_names_cannot_change_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = Directory::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/file"), "").unwrap();
        let scan = FileScan::of(&root, &[]).unwrap();
        let check = || FileScan::check_directories(&root, scan.files.values());
        check().unwrap();
        for (flag, word) in [(IFlags::APPEND, "append-only"), (IFlags::IMMUTABLE, "immutable")] {
            let sub = root.directory("sub").unwrap();
            let flags = ioctl_getflags(&sub).unwrap_or(IFlags::empty());
            if let Err(why) = ioctl_setflags(&sub, flags | flag) {
                println!("skipped: {why}");
                return;
            }
            let refused = check();
            ioctl_setflags(&sub, flags).unwrap();
            let why = refused.unwrap_err();
            assert!(why.is_refusal() && why.to_string().contains(word), "{why}");
        }
        check().unwrap();
    }
}
