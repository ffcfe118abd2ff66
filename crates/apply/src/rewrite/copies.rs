//! The copies of a dataset's files, in a hidden directory of the dataset, until they are renamed over the files.
//!
//! A copy is named after the inode number of its file, so that a database that scans its directory for tables does not mistake it for one,
//! and so that the names of a hard-linked file share one copy.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poolwright_base::directory::{Access, Directory};
use poolwright_base::{PathError, cannot, quoted};

use super::attributes::{self, Ownership};
use super::compare::Buffers;
use super::copy::{self, Proceed};
use super::entry::{EntryAt, parent_of};
use super::hidden_dir::HiddenDir;
use super::records::{CopyRecord, CopyRecords};
use super::scan::{DirectoryEntry, FileEntry, FileIdentity, FileScan};
use crate::error::refused;
use crate::{Error, Result};

/// The copies of one dataset.
#[derive(Debug)]
pub struct Copies {
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
    pub fn open(root: Directory, name: &str, records: &Path, mut except: Vec<PathBuf>) -> Result<Copies> {
        let dir = HiddenDir::new(root, name, &records.with_extension("times"));
        except.push(dir.path());
        Ok(Copies { dir, except, records: CopyRecords::open(records)?, buffers: Buffers::default() })
    }

    /// The mount point.
    pub fn root(&self) -> &Directory {
        self.dir.mountpoint()
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
        FileScan::of(self.root(), &self.except)
    }

    /// Whether a file of the dataset was rewritten by this run.
    pub fn is_rewritten(&self, file: &FileEntry) -> bool {
        self.records.is_copy(file.identity.inode)
    }

    /// Whether there is a copy of the file in its present state, and the copy is complete.
    pub fn is_copied(&self, file: &FileEntry) -> bool {
        let record = self.records.of(file.identity.inode);
        let Some(record) = record.filter(|record| record.source == file.identity) else { return false };
        let Ok(Some(dir)) = self.dir.open() else { return false };
        dir.inspect(name_of(file)).ok().flatten().is_some_and(|meta| {
            let copy = FileIdentity::of(&meta);
            let expected = FileIdentity { inode: record.copy, changed_ns: copy.changed_ns, ..record.source };
            meta.is_file() && copy == expected
        })
    }

    /// Copies a file or brings its copy up to date, and compares both. The copy belongs to this user until it is committed.
    ///
    /// # Errors
    /// The host's errors; [`Error::Refused`] for a file that cannot be replaced; [`Error::Different`] if the copy differs
    /// although the file has not changed; the errors of `proceed`. Ignores a file that has disappeared.
    pub fn update(&mut self, file: &FileEntry, proceed: &mut Proceed<'_>) -> Result<()> {
        let dir = self.dir.make()?;
        let (Some(path), to) = (file.paths.first(), name_of(file)) else { return Ok(()) };
        let to = EntryAt::new(&dir, &to);
        let is_missing = |error: &Error| {
            matches!(error, Error::Host(PathError { path: missing, cause, .. })
                if cause.kind() == ErrorKind::NotFound && missing == path)
        };
        let (parent, name) = match parent_of(self.root(), path) {
            Err(error) if is_missing(&error) => return to.remove(),
            parent => parent?,
        };
        let from = EntryAt::new(&parent, name);
        if self.is_partly_committed(&dir, file)? {
            return self.adopt(from, to, proceed);
        }
        let copied = match copy::copy(from, to, Ownership::Deferred, &mut self.buffers, proceed) {
            Err(error) if is_missing(&error) => return to.remove(),
            copied => copied?,
        };
        let verified = copy::verify(from, to, Ownership::Deferred, &mut self.buffers, proceed);
        let is_unchanged =
            || from.inspect().ok().flatten().is_some_and(|meta| FileIdentity::of(&meta) == copied);
        match verified {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // The database writes the file; the copy is brought up to date later.
            Err(_) if !is_unchanged() => return Ok(()),
            verified => verified?,
        }
        self.records.add(CopyRecord { source: copied, copy: to.metadata()?.ino() })
    }

    /// Records a copy that some names of its file have already, and that must not be changed any more.
    fn adopt(&mut self, file: EntryAt<'_>, copy: EntryAt<'_>, proceed: &mut Proceed<'_>) -> Result<()> {
        match copy::verify(file, copy, Ownership::Given, &mut self.buffers, proceed) {
            Err(Error::Different { .. }) => {
                return refused(format!(
                    "{} was changed after a crash had left it with two versions: the other is {}",
                    quoted(&file.path()),
                    quoted(&copy.path())
                ));
            }
            verified => verified?,
        }
        let (source, copy) = (file.metadata()?, copy.metadata()?);
        self.records.add(CopyRecord { source: FileIdentity::of(&source), copy: copy.ino() })
    }

    /// Gives all names of a file the same version, if a crash interrupted the commit between two of them. Then removes the other
    /// copies.
    ///
    /// # Errors
    /// As [`Copies::update`] and [`Copies::commit`].
    pub fn give_up(&mut self) -> Result<()> {
        if self.dir.names()?.is_empty() {
            return self.remove_dir();
        }
        for file in self.scan()?.files.values() {
            let is_partly_committed = match self.dir.open()? {
                Some(dir) => self.is_partly_committed(&dir, file)?,
                None => false,
            };
            if is_partly_committed {
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
        let wanted: BTreeSet<OsString> = scan.files.values().map(name_of).collect();
        for name in self.dir.names()?.iter().filter(|name| !wanted.contains(*name)) {
            self.dir.remove_entry(name)?;
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

    /// Gives the copy of a file its owner and mode, and renames it over all its names. Nothing may write to the file during this call. If a
    /// crash interrupts it, the copy still exists or all names have it.
    ///
    /// # Errors
    /// The host's errors; [`Error::Refused`] if the file has changed since it was copied, or has a name outside of the dataset;
    /// [`Error::Different`] if the copy cannot have an attribute.
    pub fn commit(&self, file: &FileEntry) -> Result<()> {
        let [path, others @ ..] = file.paths.as_slice() else { return Ok(()) };
        let changed = || refused(format!("{} was changed while the database was stopped", quoted(path)));
        let Some(dir) = self.dir.open()? else { return changed() };
        let (parent, name) = parent_of(self.root(), path)?;
        let (place, copy, second) = (EntryAt::new(&parent, name), name_of(file), second_name_of(file));
        if FileIdentity::of(&place.metadata()?) != file.identity || !self.is_copied(file) {
            return changed();
        }
        file.check_links()?;
        let (copy, second) = (EntryAt::new(&dir, &copy), EntryAt::new(&dir, &second));
        give_attributes(place, copy, file)?;
        for other in others {
            second.remove()?;
            dir.hard_link(copy.name, &dir, second.name).map_err(cannot("link", copy.path()))?;
            let (parent, name) = parent_of(self.root(), other)?;
            second.rename(EntryAt::new(&parent, name))?;
        }
        copy.rename(place)
    }

    /// Gives directories the times that they had before files were renamed in them.
    ///
    /// # Errors
    /// The host's errors. Ignores a directory that has disappeared.
    pub fn restore_times(&self, directories: &[DirectoryEntry]) -> Result<()> {
        // A directory's times change with the files in it, not with those of its subdirectories.
        for of in directories {
            let open = self.root().relative(&of.path).and_then(|relative| self.root().directory(relative));
            match open.and_then(|dir| dir.set_times(of.times())) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => {}
                set => set.map_err(cannot("set the times of", &of.path))?,
            }
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

    /// Whether a crash interrupted the commit of a file with several names: some of them have the copy already.
    fn is_partly_committed(&self, dir: &Directory, file: &FileEntry) -> Result<bool> {
        EntryAt::new(dir, &second_name_of(file)).remove()?;
        Ok(EntryAt::new(dir, &name_of(file)).inspect()?.is_some_and(|copy| copy.nlink() > 1))
    }
}

/// The name of the copy of a file.
fn name_of(file: &FileEntry) -> OsString {
    file.identity.inode.to_string().into()
}

/// The name that a copy has until it is renamed over another name of its file.
fn second_name_of(file: &FileEntry) -> OsString {
    format!("{}.link", file.identity.inode).into()
}

/// Gives a copy the attributes of its file, with owner and mode, and the present access time.
fn give_attributes(place: EntryAt<'_>, copy: EntryAt<'_>, file: &FileEntry) -> Result<()> {
    let (source, path) = (place.open()?, &place.path());
    let target = copy.dir.file(copy.name, Access::ReadWrite).map_err(cannot("open", copy.path()))?;
    let meta = source.metadata().map_err(cannot("inspect", path))?;
    if FileIdentity::of(&meta) != file.identity {
        return refused(format!("{} was changed while the database was stopped", quoted(path)));
    }
    let given = attributes::copy(&source, &meta, &target, Ownership::Given);
    given.map_err(cannot("copy the attributes of", path))?;
    match attributes::difference(&source, &target, Ownership::Given).map_err(cannot("inspect", path))? {
        Some(what) => Err(Error::Different { path: path.clone(), what: format!("in its {what}") }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
