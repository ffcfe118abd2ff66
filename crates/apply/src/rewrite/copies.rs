//! The copies of a dataset's files, in a hidden directory of the dataset, until they are renamed over the files.
//!
//! A copy is named after the inode number of its file, so that a database that searches its directory for tables does not take
//! it for one, and so that the names of a hard-linked file share a copy.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poolwright_host::quoted;

use super::attributes;
use super::compare::Buffers;
use super::copy::{self, Proceed};
use super::hidden_dir::{HiddenDir, set_times};
use super::records::{CopyRecord, CopyRecords};
use super::scan::{DirectoryEntry, FileEntry, FileIdentity, FileScan};
use crate::error::refused;
use crate::{Error, Result};

/// The copies of one dataset.
#[derive(Debug)]
pub struct Copies {
    mountpoint: PathBuf,
    dir: HiddenDir,
    /// Paths that do not belong to the dataset's files.
    except: Vec<PathBuf>,
    records: CopyRecords,
    buffers: Buffers,
}

impl Copies {
    /// The copies in the directory `name` of a mount point, with their records in the file `records`. `except` are the other paths
    /// that [`Copies::scan`] leaves out.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn open(mountpoint: &Path, name: &str, records: &Path, mut except: Vec<PathBuf>) -> Result<Copies> {
        let dir = HiddenDir::new(mountpoint, name, &records.with_extension("times"));
        except.push(dir.path().to_owned());
        Ok(Copies {
            mountpoint: mountpoint.to_owned(),
            dir,
            except,
            records: CopyRecords::open(records)?,
            buffers: Buffers::default(),
        })
    }

    /// Restores the times of the mount point after a crash ([`HiddenDir::restore_times`]).
    ///
    /// # Errors
    /// The host's errors.
    pub fn restore_mount_point(&self) -> Result<()> {
        self.dir.restore_times()
    }

    /// Lists the files of the dataset without the copies.
    ///
    /// # Errors
    /// As [`FileScan::of`].
    pub fn scan(&self) -> Result<FileScan> {
        FileScan::of(&self.mountpoint, &self.except)
    }

    /// Whether a file of the dataset was rewritten by this run.
    pub fn is_rewritten(&self, file: &FileEntry) -> bool {
        self.records.is_copy(file.identity.inode)
    }

    /// Whether there is a copy of the file in its present state, and the copy is complete.
    pub fn is_copied(&self, file: &FileEntry) -> bool {
        let record = self.records.of(file.identity.inode);
        let Some(record) = record.filter(|record| record.source == file.identity) else { return false };
        fs::symlink_metadata(self.path_of(file)).is_ok_and(|meta| {
            let copy = FileIdentity::of(&meta);
            let expected = FileIdentity { inode: record.copy, changed_ns: copy.changed_ns, ..record.source };
            meta.is_file() && copy == expected
        })
    }

    /// Copies a file or brings its copy up to date, and compares both.
    ///
    /// # Errors
    /// The host's errors; [`Error::Refused`] for a file that cannot be replaced; [`Error::Different`] if the copy differs
    /// although the file has not changed; the errors of `proceed`. Ignores a file that has disappeared.
    pub fn update(&mut self, file: &FileEntry, proceed: &mut Proceed<'_>) -> Result<()> {
        self.dir.make()?;
        let (Some(path), to) = (file.paths.first(), self.path_of(file)) else { return Ok(()) };
        if self.is_partly_committed(file)? {
            return self.adopt(path, &to, proceed);
        }
        let copied = match copy::copy(path, &to, &mut self.buffers, proceed) {
            Err(Error::Host { path: missing, cause, .. })
                if cause.kind() == ErrorKind::NotFound && missing == *path =>
            {
                return self.remove(&to);
            }
            copied => copied?,
        };
        let verified = copy::verify(path, &to, &mut self.buffers, proceed);
        let is_unchanged =
            |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| FileIdentity::of(&meta) == copied);
        match verified {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // The database writes the file; the copy is brought up to date later.
            Err(_) if !is_unchanged(path) => return Ok(()),
            verified => verified?,
        }
        let inode = fs::symlink_metadata(&to).map_err(Error::host("inspect", &to))?.ino();
        self.records.add(CopyRecord { source: copied, copy: inode })
    }

    /// Records a copy that some names of its file have already, and that must not be changed any more.
    fn adopt(&mut self, path: &Path, copy: &Path, proceed: &mut Proceed<'_>) -> Result<()> {
        match copy::verify(path, copy, &mut self.buffers, proceed) {
            Err(Error::Different { .. }) => {
                return refused(format!(
                    "{} was changed after a crash had left it with two versions: the other is {}",
                    quoted(&path),
                    quoted(&copy)
                ));
            }
            verified => verified?,
        }
        let source = fs::symlink_metadata(path).map_err(Error::host("inspect", path))?;
        let inode = fs::symlink_metadata(copy).map_err(Error::host("inspect", copy))?.ino();
        self.records.add(CopyRecord { source: FileIdentity::of(&source), copy: inode })
    }

    /// Gives all names of a file the same version, if a crash interrupted the commit between two of them. Then removes the other
    /// copies.
    ///
    /// # Errors
    /// As [`Copies::update`] and [`Copies::commit`].
    pub fn give_up(&mut self) -> Result<()> {
        if self.dir.listed()?.is_empty() {
            return self.remove_dir();
        }
        for file in self.scan()?.files.values() {
            if self.is_partly_committed(file)? {
                self.update(file, &mut |_| Ok(()))?;
                self.commit(file)?;
            }
        }
        self.remove_dir()
    }

    /// Removes the copies of files that do not exist any more.
    ///
    /// # Errors
    /// The host's errors.
    pub fn remove_stale(&self, scan: &FileScan) -> Result<()> {
        let wanted: BTreeSet<String> = scan.files.keys().map(u64::to_string).collect();
        for path in self.dir.listed()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !wanted.contains(&name) {
                self.remove(&path)?;
            }
        }
        Ok(())
    }

    /// Writes the records to the device. The copies themselves are written with the pool.
    ///
    /// # Errors
    /// The host's errors.
    pub fn sync_records(&self) -> Result<()> {
        self.records.sync()
    }

    /// Renames the copy of a file over all its names. Nothing may write the file meanwhile. If a crash interrupts it, the copy
    /// still exists or all names have it.
    ///
    /// # Errors
    /// The host's errors; [`Error::Refused`] if the file has changed since it was copied, or has a name outside of the dataset.
    pub fn commit(&self, file: &FileEntry) -> Result<()> {
        let copy = self.path_of(file);
        let [path, others @ ..] = file.paths.as_slice() else { return Ok(()) };
        let present = fs::symlink_metadata(path).map_err(Error::host("inspect", path))?;
        if FileIdentity::of(&present) != file.identity || !self.is_copied(file) {
            return refused(format!("{} was changed while the database was stopped", quoted(path)));
        }
        file.check_links()?;
        restore_access_time(&copy, &present)?;
        let second = self.second_name(file);
        for other in others {
            self.remove(&second)?;
            fs::hard_link(&copy, &second).map_err(Error::host("link", &copy))?;
            fs::rename(&second, other).map_err(Error::host("replace", other))?;
        }
        fs::rename(&copy, path).map_err(Error::host("replace", path))
    }

    /// Gives directories the times that they had before files were renamed in them.
    ///
    /// # Errors
    /// The host's errors. Ignores a directory that has disappeared.
    pub fn restore_times(&self, directories: &[DirectoryEntry]) -> Result<()> {
        // A directory's times change with the files in it, not with those of its subdirectories.
        for directory in directories {
            set_times(&directory.path, directory.times())?;
        }
        Ok(())
    }

    /// Removes the directory with all copies in it.
    ///
    /// # Errors
    /// The host's errors. Ignores a missing directory.
    pub fn remove_dir(&self) -> Result<()> {
        self.dir.remove()
    }

    /// The name that a copy has until it is renamed over another name of its file.
    fn second_name(&self, file: &FileEntry) -> PathBuf {
        self.dir.path().join(format!("{}.link", file.identity.inode))
    }

    /// Whether a crash interrupted the commit of a file with several names: some of them have the copy already.
    fn is_partly_committed(&self, file: &FileEntry) -> Result<bool> {
        self.remove(&self.second_name(file))?;
        Ok(fs::symlink_metadata(self.path_of(file)).is_ok_and(|copy| copy.nlink() > 1))
    }

    fn path_of(&self, file: &FileEntry) -> PathBuf {
        self.dir.path().join(file.identity.inode.to_string())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::host("remove", path)),
        }
    }
}

/// Gives a copy the access time of its file. It has another one if the file was read since. After resets of the kernel, copies that were made
/// shortly before had the right modification time, but the access time of their creation.
fn restore_access_time(copy: &Path, file: &fs::Metadata) -> Result<()> {
    let found = fs::symlink_metadata(copy).map_err(Error::host("inspect", copy))?;
    if (found.atime(), found.atime_nsec()) == (file.atime(), file.atime_nsec()) {
        return Ok(());
    }
    set_times(copy, attributes::times(file))
}

#[cfg(test)]
mod tests;
