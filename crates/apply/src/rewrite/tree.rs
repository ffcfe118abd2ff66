//! Copying a directory tree into another one in place, and comparing both.
//!
//! Only the parts of files that differ are written, so a snapshot of the target shares its unchanged blocks with the one before.
//! Files, directories and symbolic links are copied with owner, mode, times, extended attributes, ACLs, holes and hard links. Sockets,
//! fifos and device nodes are not: a database creates its own when it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use poolwright_base::cannot;
use poolwright_base::directory::Directory;

use super::attributes::{self, Ownership};
use super::compare::Buffers;
use super::entry::{EntryAt, parent_of};
use super::scan::FileIdentity;
use super::{Proceed, compare_file, copy_file};
use crate::{Error, Result};

/// The contents of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeContents {
    /// Number of regular files; one with several names counts once.
    pub files: u64,
    /// Sum of their lengths in bytes.
    pub bytes: u64,
    /// The objects that are not copied.
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
    copied: Option<CopiedSnapshot<'a>>,
}

/// A snapshot that was copied and compared before; now a later one of the same dataset is copied.
#[derive(Clone, Copy, Debug)]
pub struct CopiedSnapshot<'a> {
    /// The root directory of the one that was copied.
    pub earlier: &'a Directory,
    /// A time before the earlier one was taken, in nanoseconds since 1970. Files that were changed since are copied and compared again: the
    /// clock of a file system has ticks, and what is written through a mapping arrives later than its time.
    pub before_ns: i64,
}

/// The top directories of two trees.
#[derive(Clone, Copy)]
struct Tops<'t> {
    from: &'t Directory,
    to: &'t Directory,
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
    pub fn since(self, copied: CopiedSnapshot<'a>) -> TreeCopier<'a> {
        TreeCopier { copied: Some(copied), ..self }
    }

    /// Whether a file was copied before and is unchanged. A copy gets its modification time last, so one that was interrupted has another.
    fn is_copied(&self, tops: Tops<'_>, from: EntryAt<'_>, meta: &Metadata, to: EntryAt<'_>) -> bool {
        let Some(of) = &self.copied else { return false };
        let path = from.path();
        let earlier = tops.from.relative(&path).and_then(|path| of.earlier.inspect(path));
        let (Ok(Some(before)), Ok(Some(copy))) = (earlier, to.inspect()) else { return false };
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

    /// Makes the directory `to` equal to `from`: writes what differs, and removes what `from` does not have. Returns what `from`
    /// contains.
    ///
    /// # Errors
    /// The host's errors; those of `proceed`.
    pub fn copy(&mut self, from: &Directory, to: &Directory) -> Result<TreeContents> {
        self.begin();
        self.copy_directory(Tops { from, to }, from, to, TopDirectory::Included)?;
        Ok(std::mem::take(&mut self.contents))
    }

    /// As [`TreeCopier::copy`], but the attributes of the directory `to` itself stay as they are.
    ///
    /// # Errors
    /// As [`TreeCopier::copy`].
    pub fn copy_contents(&mut self, from: &Directory, to: &Directory) -> Result<TreeContents> {
        self.begin();
        self.copy_directory(Tops { from, to }, from, to, TopDirectory::LeftAlone)?;
        Ok(std::mem::take(&mut self.contents))
    }

    /// As [`TreeCopier::compare`], without the attributes of the two directories themselves.
    ///
    /// # Errors
    /// As [`TreeCopier::compare`].
    pub fn compare_contents(&mut self, from: &Directory, to: &Directory) -> Result<()> {
        self.begin();
        self.compare_directory(Tops { from, to }, from, to, TopDirectory::LeftAlone)
    }

    /// Compares two trees: names, data and attributes.
    ///
    /// # Errors
    /// [`Error::Different`]; the host's errors; those of `proceed`.
    pub fn compare(&mut self, from: &Directory, to: &Directory) -> Result<()> {
        self.begin();
        self.compare_directory(Tops { from, to }, from, to, TopDirectory::Included)
    }

    fn begin(&mut self) {
        self.contents = TreeContents::default();
        self.copies.clear();
        self.owners.clear();
    }

    fn copy_directory(
        &mut self,
        tops: Tops<'_>,
        from: &Directory,
        to: &Directory,
        top: TopDirectory,
    ) -> Result<()> {
        (self.proceed)(0)?;
        let mut wanted = BTreeSet::new();
        for (name, meta) in entries(from)? {
            let (source, target) = (EntryAt::new(from, &name), EntryAt::new(to, &name));
            match NodeKind::of(&meta) {
                _ if self.except.contains(&target.path()) => {}
                NodeKind::Directory => {
                    let (source, target) = (source.directory()?, target.make_directory()?);
                    self.copy_directory(tops, &source, &target, TopDirectory::Included)?;
                }
                NodeKind::File => self.copy_file(tops, source, &meta, target)?,
                NodeKind::Link => copy_link(source, &meta, target)?,
                NodeKind::Special => {
                    self.contents.skipped.push(source.path());
                    continue;
                }
            }
            wanted.insert(name);
        }
        for name in entries(to)?.keys().filter(|name| !wanted.contains(*name)) {
            let entry = EntryAt::new(to, name);
            if !self.except.contains(&entry.path()) {
                entry.remove()?;
            }
        }
        if top == TopDirectory::LeftAlone { Ok(()) } else { copy_directory_attributes(from, to) }
    }

    fn copy_file(
        &mut self,
        tops: Tops<'_>,
        from: EntryAt<'_>,
        meta: &Metadata,
        to: EntryAt<'_>,
    ) -> Result<()> {
        clear_other(to, NodeKind::File)?;
        let inode = meta.ino();
        if let Some(first) = self.copies.get(&inode) {
            let (parent, name) = parent_of(tops.to, first)?;
            return link(EntryAt::new(&parent, name), to);
        }
        // A file of the target that is the copy of another file already, by another of its names.
        let present = to.inspect()?.map(|meta| meta.ino());
        if present.is_some_and(|present| self.owners.get(&present).is_some_and(|owner| *owner != inode)) {
            to.remove()?;
        }
        if !self.is_copied(tops, from, meta, to) {
            copy_file(from, to, Ownership::Given, &mut self.buffers, &mut *self.proceed)?;
        }
        self.owners.insert(to.metadata()?.ino(), inode);
        self.copies.insert(inode, to.path());
        self.contents.files += 1;
        self.contents.bytes += meta.len();
        Ok(())
    }

    fn compare_directory(
        &mut self,
        tops: Tops<'_>,
        from: &Directory,
        to: &Directory,
        top: TopDirectory,
    ) -> Result<()> {
        (self.proceed)(0)?;
        let path = from.path();
        let different = |what: String| Err(Error::Different { path: path.to_owned(), what });
        let mut wanted = entries(from)?;
        wanted.retain(|_, meta| NodeKind::of(meta) != NodeKind::Special);
        let mut found = entries(to)?;
        for of in [&mut wanted, &mut found] {
            of.retain(|name, _| !self.except.contains(&to.path().join(name)));
        }
        if let Some(name) = wanted.keys().find(|name| !found.contains_key(*name)) {
            return different(format!("in {}, which is missing", name.display()));
        }
        if let Some(name) = found.keys().find(|name| !wanted.contains_key(*name)) {
            return different(format!("in {}, which only the copy has", name.display()));
        }
        for (name, meta) in &wanted {
            let (source, target, copied) = (EntryAt::new(from, name), EntryAt::new(to, name), &found[name]);
            match (NodeKind::of(meta), NodeKind::of(copied)) {
                (NodeKind::Directory, NodeKind::Directory) => {
                    let (source, target) = (source.directory()?, target.directory()?);
                    self.compare_directory(tops, &source, &target, TopDirectory::Included)?;
                }
                (NodeKind::File, NodeKind::File) => self.compare_file(tops, source, meta, target, copied)?,
                (NodeKind::Link, NodeKind::Link) => compare_link(source, meta, target, copied)?,
                _ => return different(format!("in {}, which is of another kind", name.display())),
            }
        }
        if top == TopDirectory::LeftAlone {
            return Ok(());
        }
        let (a, b) = (open(from)?, open(to)?);
        let ignores_length = |what: &&str| *what != "length";
        let difference = attributes::difference(&a, &b, Ownership::Given);
        match difference.map_err(cannot("inspect", path))?.filter(ignores_length) {
            Some(what) => different(format!("in its {what}")),
            None => compare_directory_attributes(from, &a, &b),
        }
    }

    fn compare_file(
        &mut self,
        tops: Tops<'_>,
        from: EntryAt<'_>,
        meta: &Metadata,
        to: EntryAt<'_>,
        copied: &Metadata,
    ) -> Result<()> {
        // Two names are one file in both trees, or in none.
        let known = self.copies.contains_key(&meta.ino());
        let owner = *self.owners.entry(copied.ino()).or_insert(meta.ino());
        let first = self.copies.entry(meta.ino()).or_insert_with(|| to.path()).clone();
        let (parent, name) = parent_of(tops.to, &first)?;
        let is_first = EntryAt::new(&parent, name).inspect()?.is_some_and(|of| of.ino() == copied.ino());
        if owner != meta.ino() || !is_first {
            let what = "in its hard links".to_owned();
            return Err(Error::Different { path: from.path(), what });
        }
        if known || self.is_copied(tops, from, meta, to) {
            return Ok(());
        }
        compare_file(from, to, Ownership::Given, &mut self.buffers, &mut *self.proceed)
    }
}

/// Copies owner, mode, times, extended attributes and ACLs of a directory, and removes attributes that `from` does not have.
///
/// # Errors
/// The host's errors.
pub fn copy_directory_attributes(from: &Directory, to: &Directory) -> Result<()> {
    let (source, target) = (open(from)?, open(to)?);
    let meta = source.metadata().map_err(cannot("inspect", from.path()))?;
    let copied = attributes::copy(&source, &meta, &target, Ownership::Given);
    Ok(copied.map_err(cannot("copy the attributes of", from.path()))?)
}

/// Directories differ in length, so [`attributes::difference`] may have stopped at them.
fn compare_directory_attributes(dir: &Directory, a: &File, b: &File) -> Result<()> {
    let path = dir.path();
    let at = |what| cannot(what, path);
    let (x, y) = (a.metadata().map_err(at("inspect"))?, b.metadata().map_err(at("inspect"))?);
    let key = |of: &Metadata| (of.uid(), of.gid(), of.mode(), of.mtime(), of.mtime_nsec());
    let extended = |file: &File| attributes::extended(file).map_err(at("inspect"));
    if key(&x) == key(&y) && extended(a)? == extended(b)? {
        return Ok(());
    }
    Err(Error::Different { path: path.to_owned(), what: "in its attributes".to_owned() })
}

/// The entries of a directory by name, without the hidden directory of snapshots. Ignores entries that disappear during the call.
fn entries(dir: &Directory) -> Result<BTreeMap<OsString, Metadata>> {
    let mut found = BTreeMap::new();
    for name in dir.names().map_err(cannot("list", dir.path()))? {
        if name == ".zfs" {
            continue;
        }
        if let Some(meta) = EntryAt::new(dir, &name).inspect()? {
            found.insert(name, meta);
        }
    }
    Ok(found)
}

fn open(dir: &Directory) -> Result<File> {
    Ok(dir.try_clone_file().map_err(cannot("open", dir.path()))?)
}

/// Removes what has the name of a copy and is of another kind.
fn clear_other(entry: EntryAt<'_>, kind: NodeKind) -> Result<()> {
    match entry.inspect()? {
        Some(meta) if NodeKind::of(&meta) != kind => entry.remove(),
        _ => Ok(()),
    }
}

/// Makes `to` another name of `first`.
fn link(first: EntryAt<'_>, to: EntryAt<'_>) -> Result<()> {
    let inode = |entry: EntryAt<'_>| Ok::<_, Error>(entry.inspect()?.map(|meta| meta.ino()));
    match inode(to)? {
        present if present.is_some() && present == inode(first)? => return Ok(()),
        Some(_) => to.remove()?,
        None => {}
    }
    Ok(first.dir.hard_link(first.name, to.dir, to.name).map_err(cannot("link", to.path()))?)
}

fn read_link(entry: EntryAt<'_>) -> Result<PathBuf> {
    Ok(entry.dir.read_link(entry.name).map_err(cannot("read", entry.path()))?)
}

fn copy_link(from: EntryAt<'_>, meta: &Metadata, to: EntryAt<'_>) -> Result<()> {
    let (target, path) = (read_link(from)?, &to.path());
    clear_other(to, NodeKind::Link)?;
    let present = to.inspect()?;
    if present.is_none() || read_link(to)? != target {
        to.remove()?;
        to.dir.create_link(to.name, &target).map_err(cannot("create", path))?;
    }
    let owned = to.dir.set_owner(to.name, (meta.uid(), meta.gid()));
    owned.map_err(cannot("set the owner of", path))?;
    let copied = attributes::copy_extended_of_link(from, to);
    copied.map_err(cannot("copy the attributes of", from.path()))?;
    let (accessed, modified) = ((meta.atime(), meta.atime_nsec()), (meta.mtime(), meta.mtime_nsec()));
    Ok(to.dir.set_times_of(to.name, accessed, modified).map_err(cannot("set the times of", path))?)
}

fn compare_link(from: EntryAt<'_>, meta: &Metadata, to: EntryAt<'_>, copied: &Metadata) -> Result<()> {
    let key = |of: &Metadata| (of.uid(), of.gid(), of.mtime(), of.mtime_nsec());
    let extended = |of: EntryAt<'_>| attributes::extended_of_link(of).map_err(cannot("inspect", of.path()));
    if read_link(from)? == read_link(to)? && key(meta) == key(copied) && extended(from)? == extended(to)? {
        return Ok(());
    }
    Err(Error::Different { path: from.path(), what: "in its target or its attributes".to_owned() })
}

#[cfg(test)]
mod tests;
