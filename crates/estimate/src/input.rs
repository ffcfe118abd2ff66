//! The files to estimate: those that `du -x` would count, with each inode once.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt};
use std::path::{Path, PathBuf};

use poolwright_base::{cannot, quoted, regular};
use schemars::JsonSchema;
use serde::Serialize;

use crate::data_ranges::DataRanges;
use crate::{Error, Result};

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// The host's error message.
    pub why: String,
}

/// A regular file at the time when it was listed.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub path: PathBuf,
    pub len: u64,
    stamp: Stamp,
    pub data: DataRanges,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    len: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Stamp {
        Stamp {
            inode: (meta.dev(), meta.ino()),
            len: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }
}

/// The files to estimate.
#[derive(Clone, Debug, Default)]
pub struct Input {
    pub(crate) files: Vec<Entry>,
    pub(crate) skipped: Vec<Skipped>,
    /// Whether a file was skipped because of missing permissions.
    denied: bool,
    pub(crate) special: u64,
    pub(crate) empty: u64,
    paths: Vec<PathBuf>,
    seen: HashSet<(u64, u64)>,
    /// Whether holes count as data.
    ignores_holes: bool,
    /// Whether there is a block device among the files.
    has_devices: bool,
}

impl Input {
    /// Collects files, and directories with everything below them on the same file system. Symbolic links are followed
    /// if they are given, but not below; hard links count once; sockets, pipes and devices are counted but not
    /// read, except for block devices that are given.
    ///
    /// # Errors
    ///
    /// Returns an error if a path cannot be opened, or if there is no file with content.
    pub fn paths(paths: &[PathBuf]) -> Result<Input> {
        let mut input = Input { paths: paths.to_vec(), ..Input::default() };
        for path in paths {
            let meta = fs::metadata(path).map_err(cannot("open", path))?;
            if meta.is_dir() {
                input.walk(path, meta.dev());
            } else if meta.file_type().is_block_device() {
                input.add_device(path, &meta);
            } else {
                input.add(path, &meta);
            }
        }
        input.finish()
    }

    /// Uses exactly these files. Files that were removed since they were listed are reported as skipped.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no file with content.
    pub fn files(files: Vec<PathBuf>) -> Result<Input> {
        Input::of_files(files, false)
    }

    /// As [`Input::files`], but does not ask the file system for holes: on OpenZFS, that question waits until the data of a file which is
    /// being written is on disk. Holes are read, as zeros.
    ///
    /// # Errors
    ///
    /// As [`Input::files`].
    pub fn files_being_written(files: Vec<PathBuf>) -> Result<Input> {
        Input::of_files(files, true)
    }

    fn of_files(files: Vec<PathBuf>, ignores_holes: bool) -> Result<Input> {
        let mut input = Input { ignores_holes, ..Input::default() };
        for path in &files {
            match fs::metadata(path) {
                Ok(meta) if meta.file_type().is_block_device() => input.add_device(path, &meta),
                Ok(meta) => input.add(path, &meta),
                Err(why) => input.skip(path, &why),
            }
        }
        input.paths = files;
        input.finish()
    }

    /// Returns the number of files with content.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is a block device (a volume) among the files.
    pub fn has_devices(&self) -> bool {
        self.has_devices
    }

    /// Always false, because an input without content is an error on creation.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the sum of the files' lengths in bytes.
    pub fn logical_bytes(&self) -> u64 {
        self.files.iter().map(|f| f.len).sum()
    }

    fn skip(&mut self, path: &Path, why: &io::Error) {
        self.denied |= why.kind() == io::ErrorKind::PermissionDenied;
        self.skipped.push(Skipped { path: path.to_owned(), why: why.to_string() });
    }

    fn walk(&mut self, top: &Path, device: u64) {
        let mut todo = vec![top.to_owned()];
        while let Some(dir) = todo.pop() {
            let listed = fs::read_dir(&dir).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
            let mut entries = match listed {
                Ok(entries) => entries,
                Err(why) => {
                    self.skip(&dir, &why);
                    continue;
                }
            };
            // Neighbours in the list become neighbours in the sample's strata, so keep similar files together.
            entries.sort_by_key(|e| e.file_name());
            for entry in entries {
                match entry.metadata() {
                    Ok(meta) if meta.dev() != device => {}
                    Ok(meta) if meta.is_dir() => todo.push(entry.path()),
                    Ok(meta) if meta.is_symlink() => {}
                    Ok(meta) => self.add(&entry.path(), &meta),
                    Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                    Err(why) => self.skip(&entry.path(), &why),
                }
            }
        }
    }

    fn add(&mut self, path: &Path, meta: &Metadata) {
        if !meta.is_file() {
            self.special += 1;
        } else if !self.seen.insert((meta.dev(), meta.ino())) {
            // The file was already listed under another name.
        } else {
            match open(path) {
                Err(why) => self.skip(path, &why),
                Ok(_) if meta.len() == 0 => self.empty += 1,
                Ok(file) => {
                    let (path, len, stamp) = (path.to_owned(), meta.len(), Stamp::of(meta));
                    let data =
                        if self.ignores_holes { DataRanges::whole(len) } else { DataRanges::of(&file, len) };
                    self.files.push(Entry { path, len, stamp, data });
                }
            }
        }
    }

    /// Adds a block device (a volume), which reports no holes.
    fn add_device(&mut self, path: &Path, meta: &Metadata) {
        match open(path).and_then(|file| regular::length(&file)) {
            Err(why) => self.skip(path, &why),
            Ok(_) if !self.seen.insert((meta.rdev(), 0)) => {} // under another name
            Ok(0) => self.empty += 1,
            Ok(len) => {
                let (path, stamp) = (path.to_owned(), Stamp::of(meta));
                self.has_devices = true;
                self.files.push(Entry { path, len, stamp, data: DataRanges::whole(len) });
            }
        }
    }

    fn finish(mut self) -> Result<Input> {
        self.seen = HashSet::new();
        if self.files.is_empty() { Err(self.nothing(&self.skipped)) } else { Ok(self) }
    }

    /// The error for an input without a file that can be read.
    pub(crate) fn nothing(&self, skipped: &[Skipped]) -> Error {
        let paths = self.paths.iter().map(|p| quoted(&p).to_string()).collect::<Vec<_>>().join(", ");
        let found = match skipped.first() {
            Some(first) => {
                let hint = if self.denied { "\nhint: run this as a user who may read the files" } else { "" };
                let (path, why) = (quoted(&first.path), &first.why);
                match skipped.len() {
                    1 => format!("the file {path} cannot be read: {why}{hint}"),
                    n => format!("{n} files cannot be read, the first of them {path}: {why}{hint}"),
                }
            }
            None if self.empty == 1 => "the only file has no content".into(),
            None if self.empty > 0 => format!("all {} files have no content", self.empty),
            None if self.special > 0 => "only sockets, pipes or devices found".into(),
            None => "no files found".into(),
        };
        Error::Empty { paths, found }
    }
}

/// Opens the file for reading; refuses anything that has replaced it and is neither a regular file nor a block device.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    regular::open_or_block_device(path)
}

impl Entry {
    /// Whether the open file differs from the listed one.
    pub(crate) fn changed(&self, file: &File) -> bool {
        file.metadata().map_or(true, |meta| Stamp::of(&meta) != self.stamp)
    }

    /// Returns the number of records of `recordsize` that contain any data; the others are holes.
    pub(crate) fn written_records(&self, recordsize: u64) -> u64 {
        self.data.units(recordsize).into_iter().map(|range| range.end - range.start).sum()
    }
}
