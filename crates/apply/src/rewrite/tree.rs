//! Copying a directory tree into another one in place, and comparing both.
//!
//! Only the parts of files that differ are written, so a snapshot of the target shares its unchanged blocks with the one before.
//! Files, directories and symbolic links are copied with owner, mode, times, extended attributes, ACLs, holes and hard links. Sockets,
//! fifos and device nodes are not: a database makes its own when it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use poolwright_host::private;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::compare::Buffers;
use super::scan::FileIdentity;
use super::{Proceed, attributes, compare_file, copy_file};
use crate::{Error, Result};

/// What a tree contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeContents {
    /// Number of regular files; one with several names counts once.
    pub files: u64,
    /// Sum of their lengths in bytes.
    pub bytes: u64,
    /// What is not copied.
    pub skipped: Vec<PathBuf>,
}

/// The kind of an entry in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    Directory,
    File,
    Link,
    /// A socket, a fifo or a device node.
    Special,
}

impl NodeKind {
    fn of(meta: &Metadata) -> NodeKind {
        match meta.file_type() {
            kind if kind.is_dir() => NodeKind::Directory,
            kind if kind.is_file() => NodeKind::File,
            kind if kind.is_symlink() => NodeKind::Link,
            _ => NodeKind::Special,
        }
    }
}

/// Copies and compares trees.
pub struct TreeCopier<'a> {
    proceed: Box<Proceed<'a>>,
    buffers: Buffers,
    contents: TreeContents,
    /// Inode number in the source → the first path of its copy.
    copies: BTreeMap<u64, PathBuf>,
    /// Inode number in the target → the inode number in the source of which it is a copy.
    owners: BTreeMap<u64, u64>,
    /// Directories of the target that are left alone.
    except: BTreeSet<PathBuf>,
    /// The snapshot that was copied and compared before.
    copied: Option<CopiedSnapshot>,
}

/// A snapshot that was copied and compared before, and a later one of the same dataset.
#[derive(Clone, Debug)]
pub struct CopiedSnapshot {
    /// The root directory of the one that was copied.
    pub earlier: PathBuf,
    /// That of the one that is copied now.
    pub later: PathBuf,
    /// A time before the earlier one was taken, in nanoseconds since 1970. Files that were changed since are copied and compared again: the
    /// clock of a file system has ticks, and what is written through a mapping arrives later than its time.
    pub before_ns: i64,
}

/// Whether the attributes of the top directory itself belong to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopDirectory {
    Included,
    LeftAlone,
}

impl<'a> TreeCopier<'a> {
    /// `proceed` is called with the number of bytes of each piece of data, and with 0 at each directory. An error ends the work.
    pub fn new(proceed: impl FnMut(u64) -> Result<()> + 'a) -> TreeCopier<'a> {
        TreeCopier {
            proceed: Box::new(proceed),
            buffers: Buffers::default(),
            contents: TreeContents::default(),
            copies: BTreeMap::new(),
            owners: BTreeMap::new(),
            except: BTreeSet::new(),
            copied: None,
        }
    }

    /// Neither copies nor compares the data of files that are the same in a snapshot that was copied to the same target and compared before.
    #[must_use]
    pub fn since(self, copied: CopiedSnapshot) -> TreeCopier<'a> {
        TreeCopier { copied: Some(copied), ..self }
    }

    /// Whether a file was copied before and is unchanged. A copy gets its modification time last, so one that was interrupted has another.
    fn is_copied(&self, from: &Path, meta: &Metadata, to: &Path) -> bool {
        let Some(of) = &self.copied else { return false };
        let earlier = from.strip_prefix(&of.later).ok().map(|path| of.earlier.join(path));
        let before = earlier.and_then(|path| fs::symlink_metadata(path).ok());
        let (Some(before), Ok(copy)) = (before, fs::symlink_metadata(to)) else { return false };
        let identity = FileIdentity::of(meta);
        let time = |of: &Metadata| (of.len(), of.mtime(), of.mtime_nsec());
        before.is_file()
            && FileIdentity::of(&before) == identity
            && identity.changed_ns < of.before_ns
            && copy.is_file()
            && time(&copy) == time(meta)
    }

    /// Leaves these directories of the target alone: they are neither written, removed nor compared.
    #[must_use]
    pub fn except(mut self, directories: impl IntoIterator<Item = PathBuf>) -> TreeCopier<'a> {
        self.except.extend(directories);
        self
    }

    /// Makes the directory `to` equal to `from`: creates it, writes what differs, and removes what `from` does not have. Returns what
    /// `from` contains.
    ///
    /// # Errors
    /// The host's errors; those of `proceed`.
    pub fn copy(&mut self, from: &Path, to: &Path) -> Result<TreeContents> {
        self.begin();
        self.copy_directory(from, to, TopDirectory::Included)?;
        Ok(std::mem::take(&mut self.contents))
    }

    /// As [`TreeCopier::copy`], but the attributes of the directory `to` itself stay as they are.
    ///
    /// # Errors
    /// As [`TreeCopier::copy`].
    pub fn copy_contents(&mut self, from: &Path, to: &Path) -> Result<TreeContents> {
        self.begin();
        self.copy_directory(from, to, TopDirectory::LeftAlone)?;
        Ok(std::mem::take(&mut self.contents))
    }

    /// As [`TreeCopier::compare`], without the attributes of the two directories themselves.
    ///
    /// # Errors
    /// As [`TreeCopier::compare`].
    pub fn compare_contents(&mut self, from: &Path, to: &Path) -> Result<()> {
        self.begin();
        self.compare_directory(from, to, TopDirectory::LeftAlone)
    }

    /// Compares two trees: names, data and attributes.
    ///
    /// # Errors
    /// [`Error::Different`]; the host's errors; those of `proceed`.
    pub fn compare(&mut self, from: &Path, to: &Path) -> Result<()> {
        self.begin();
        self.compare_directory(from, to, TopDirectory::Included)
    }

    fn begin(&mut self) {
        self.contents = TreeContents::default();
        self.copies.clear();
        self.owners.clear();
    }

    fn copy_directory(&mut self, from: &Path, to: &Path, top: TopDirectory) -> Result<()> {
        (self.proceed)(0)?;
        clear_other(to, NodeKind::Directory)?;
        match private::make_dir(to) {
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(Error::host("create", to))?,
        }
        let mut wanted = BTreeSet::new();
        for (name, meta) in entries(from)? {
            let (source, target) = (from.join(&name), to.join(&name));
            match NodeKind::of(&meta) {
                _ if self.except.contains(&target) => {}
                NodeKind::Directory => self.copy_directory(&source, &target, TopDirectory::Included)?,
                NodeKind::File => self.copy_file(&source, &meta, &target)?,
                NodeKind::Link => copy_link(&source, &meta, &target)?,
                NodeKind::Special => {
                    self.contents.skipped.push(source);
                    continue;
                }
            }
            wanted.insert(name);
        }
        for (name, _) in entries(to)?.into_iter().filter(|(name, _)| !wanted.contains(name)) {
            let path = to.join(name);
            if !self.except.contains(&path) {
                remove(&path)?;
            }
        }
        if top == TopDirectory::LeftAlone { Ok(()) } else { copy_directory_attributes(from, to) }
    }

    fn copy_file(&mut self, from: &Path, meta: &Metadata, to: &Path) -> Result<()> {
        clear_other(to, NodeKind::File)?;
        let inode = meta.ino();
        if let Some(first) = self.copies.get(&inode) {
            return link(first, to);
        }
        // A file of the target that is the copy of another file already, by another of its names.
        let present = fs::symlink_metadata(to).ok().map(|meta| meta.ino());
        if present.is_some_and(|present| self.owners.get(&present).is_some_and(|owner| *owner != inode)) {
            remove(to)?;
        }
        if !self.is_copied(from, meta, to) {
            copy_file(from, to, &mut self.buffers, &mut *self.proceed)?;
        }
        let copied = fs::symlink_metadata(to).map_err(Error::host("inspect", to))?;
        self.owners.insert(copied.ino(), inode);
        self.copies.insert(inode, to.to_owned());
        self.contents.files += 1;
        self.contents.bytes += meta.len();
        Ok(())
    }

    fn compare_directory(&mut self, from: &Path, to: &Path, top: TopDirectory) -> Result<()> {
        (self.proceed)(0)?;
        let different = |what: String| Err(Error::Different { path: from.to_owned(), what });
        let mut wanted = entries(from)?;
        wanted.retain(|_, meta| NodeKind::of(meta) != NodeKind::Special);
        let mut found = entries(to)?;
        for of in [&mut wanted, &mut found] {
            of.retain(|name, _| !self.except.contains(&to.join(name)));
        }
        if let Some(name) = wanted.keys().find(|name| !found.contains_key(*name)) {
            return different(format!("in {}, which is missing", name.display()));
        }
        if let Some(name) = found.keys().find(|name| !wanted.contains_key(*name)) {
            return different(format!("in {}, which only the copy has", name.display()));
        }
        for (name, meta) in &wanted {
            let (source, target, copied) = (from.join(name), to.join(name), &found[name]);
            match (NodeKind::of(meta), NodeKind::of(copied)) {
                (NodeKind::Directory, NodeKind::Directory) => {
                    self.compare_directory(&source, &target, TopDirectory::Included)?;
                }
                (NodeKind::File, NodeKind::File) => self.compare_file(&source, meta, &target, copied)?,
                (NodeKind::Link, NodeKind::Link) => compare_link(&source, meta, &target, copied)?,
                _ => return different(format!("in {}, which is of another kind", name.display())),
            }
        }
        if top == TopDirectory::LeftAlone {
            return Ok(());
        }
        let (a, b) = (open(from)?, open(to)?);
        let ignores_length = |what: &&str| *what != "length";
        match attributes::difference(&a, &b).map_err(Error::host("inspect", from))?.filter(ignores_length) {
            Some(what) => different(format!("in its {what}")),
            None => compare_directory_attributes(from, &a, &b),
        }
    }

    fn compare_file(&mut self, from: &Path, meta: &Metadata, to: &Path, copied: &Metadata) -> Result<()> {
        // Two names are one file in both trees, or in none.
        let known = self.copies.contains_key(&meta.ino());
        let owner = *self.owners.entry(copied.ino()).or_insert(meta.ino());
        let first = self.copies.entry(meta.ino()).or_insert_with(|| to.to_owned()).clone();
        let is_first = fs::symlink_metadata(&first).is_ok_and(|of| of.ino() == copied.ino());
        if owner != meta.ino() || !is_first {
            let what = "in its hard links".to_owned();
            return Err(Error::Different { path: from.to_owned(), what });
        }
        if known || self.is_copied(from, meta, to) {
            return Ok(());
        }
        compare_file(from, to, &mut self.buffers, &mut *self.proceed)
    }
}

/// Copies owner, mode, times, extended attributes and ACLs of a directory, and removes attributes that `from` does not have.
///
/// # Errors
/// The host's errors.
pub fn copy_directory_attributes(from: &Path, to: &Path) -> Result<()> {
    let (source, target) = (open(from)?, open(to)?);
    let meta = source.metadata().map_err(Error::host("inspect", from))?;
    attributes::copy(&source, &meta, &target).map_err(Error::host("copy the attributes of", from))
}

/// Directories have lengths of their own, so [`attributes::difference`] may have stopped at them.
fn compare_directory_attributes(path: &Path, a: &File, b: &File) -> Result<()> {
    let at = |what| Error::host(what, path);
    let (x, y) = (a.metadata().map_err(at("inspect"))?, b.metadata().map_err(at("inspect"))?);
    let key = |of: &Metadata| (of.uid(), of.gid(), of.mode(), of.mtime(), of.mtime_nsec());
    let extended = |file: &File| attributes::extended(file).map_err(at("inspect"));
    if key(&x) == key(&y) && extended(a)? == extended(b)? {
        return Ok(());
    }
    Err(Error::Different { path: path.to_owned(), what: "in its attributes".to_owned() })
}

/// The entries of a directory by name, without the hidden directory of snapshots.
fn entries(dir: &Path) -> Result<BTreeMap<OsString, Metadata>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(Error::host("list", dir))? {
        let entry = entry.map_err(Error::host("list", dir))?;
        if entry.file_name() == ".zfs" {
            continue;
        }
        let meta = entry.metadata().map_err(Error::host("inspect", &entry.path()))?;
        found.insert(entry.file_name(), meta);
    }
    Ok(found)
}

fn open(dir: &Path) -> Result<File> {
    File::open(dir).map_err(Error::host("open", dir))
}

/// Removes a file, or a directory with everything in it.
pub(super) fn remove(path: &Path) -> Result<()> {
    let meta = fs::symlink_metadata(path).map_err(Error::host("inspect", path))?;
    let removed = if meta.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(Error::host("remove", path))
}

/// Removes what has the name of a copy and is of another kind.
fn clear_other(path: &Path, kind: NodeKind) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if NodeKind::of(&meta) != kind => remove(path),
        _ => Ok(()),
    }
}

/// Makes `to` another name of `first`.
fn link(first: &Path, to: &Path) -> Result<()> {
    let inode = |path: &Path| fs::symlink_metadata(path).ok().map(|meta| meta.ino());
    match inode(to) {
        present if present.is_some() && present == inode(first) => return Ok(()),
        Some(_) => remove(to)?,
        None => {}
    }
    fs::hard_link(first, to).map_err(Error::host("link", to))
}

fn copy_link(from: &Path, meta: &Metadata, to: &Path) -> Result<()> {
    let target = fs::read_link(from).map_err(Error::host("read", from))?;
    clear_other(to, NodeKind::Link)?;
    if fs::read_link(to).ok().as_ref() != Some(&target) {
        if fs::symlink_metadata(to).is_ok() {
            remove(to)?;
        }
        symlink(&target, to).map_err(Error::host("create", to))?;
    }
    lchown(to, Some(meta.uid()), Some(meta.gid())).map_err(Error::host("set the owner of", to))?;
    attributes::copy_extended_of_link(from, to).map_err(Error::host("copy the attributes of", from))?;
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(meta.atime(), meta.atime_nsec() as _),
        last_modification: time(meta.mtime(), meta.mtime_nsec() as _),
    };
    utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(Error::errno("set the times of", to))
}

fn compare_link(from: &Path, meta: &Metadata, to: &Path, copied: &Metadata) -> Result<()> {
    let target = |path: &Path| fs::read_link(path).map_err(Error::host("read", path));
    let key = |of: &Metadata| (of.uid(), of.gid(), of.mtime(), of.mtime_nsec());
    let extended = |path: &Path| attributes::extended_of_link(path).map_err(Error::host("inspect", path));
    if target(from)? == target(to)? && key(meta) == key(copied) && extended(from)? == extended(to)? {
        return Ok(());
    }
    Err(Error::Different { path: from.to_owned(), what: "in its target or its attributes".to_owned() })
}

#[cfg(test)]
mod tests;
