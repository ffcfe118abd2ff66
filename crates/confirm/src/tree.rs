//! The files below a database's directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poolwright_base::directory::{Directory, LinkTarget};
use poolwright_base::{cannot, quoted};

use crate::{Error, Result};

/// The deepest nesting that is followed; a deeper one is taken for a loop of links.
const DEEPEST: usize = 64;

/// A database's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The sum of the lengths of all regular files.
    pub bytes: u64,
    /// The number of regular files.
    pub files: u64,
    /// The directory, and the targets of symbolic links in it that are outside.
    pub roots: Vec<PathBuf>,
}

impl Tree {
    /// Scans a directory, which must be an absolute path without symbolic links.
    ///
    /// # Errors
    /// As [`DatabaseDirectory::open`], [`DatabaseDirectory::kind`] and [`entries`].
    pub fn scan(dir: &Path) -> Result<Tree> {
        let mut tree = Tree { roots: vec![dir.to_owned()], ..Tree::default() };
        let database = DatabaseDirectory::open(dir)?;
        tree.add(&database.top, &database, 0)?;
        Ok(tree)
    }

    fn add(&mut self, dir: &Directory, database: &DatabaseDirectory, depth: usize) -> Result<()> {
        for name in entries(dir, depth)? {
            match database.kind(dir, &name)? {
                Kind::Directory => self.add(&subdirectory(dir, &name)?, database, depth + 1)?,
                Kind::File(bytes) => self.add_file(bytes),
                Kind::OutsideDirectory(target) => {
                    let inside = target.directory().map_err(cannot("open", target.path()))?;
                    self.add(&inside, database, depth + 1)?;
                    self.roots.push(target.path().to_owned());
                }
                Kind::OutsideFile(target, bytes) => {
                    self.add_file(bytes);
                    self.roots.push(target.path().to_owned());
                }
                Kind::Inside(_) | Kind::Kept(_) | Kind::Other => {}
            }
        }
        Ok(())
    }

    fn add_file(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.files += 1;
    }
}

/// The database's directory, in which another user may rename and link anything at any time.
pub(super) struct DatabaseDirectory {
    /// The directory.
    pub top: Directory,
    /// Its path, without links.
    path: PathBuf,
    owner: u32,
}

/// The kind of a directory entry, as a copy treats it.
#[derive(Debug)]
pub(super) enum Kind {
    Directory,
    /// With its length in bytes.
    File(u64),
    /// A link to a file in the database's directory, and the path relative to it.
    Inside(PathBuf),
    /// A link to a directory elsewhere. A copy contains the directory instead of the link.
    OutsideDirectory(LinkTarget),
    /// A link to a file elsewhere, with its length in bytes. A copy contains the file instead of the link.
    OutsideFile(LinkTarget, u64),
    /// A link that a copy has too, and where it leads: its target does not exist, or is another user's file.
    Kept(PathBuf),
    /// A socket, a pipe or a device.
    Other,
}

impl DatabaseDirectory {
    /// Opens it. The path must be absolute, and without symbolic links.
    ///
    /// # Errors
    /// [`Error::Host`].
    pub fn open(dir: &Path) -> Result<DatabaseDirectory> {
        let top = Directory::open_without_links(dir).map_err(cannot("open", dir))?;
        let owner = top.metadata().map_err(cannot("inspect", dir))?.uid();
        let path = std::fs::read_link(top.descriptor_path()).map_err(cannot("inspect", dir))?;
        Ok(DatabaseDirectory { top, path, owner })
    }

    /// The kind of an entry.
    ///
    /// A link leads this process, which can be root's, anywhere. So a target outside counts as the database's only if it belongs to the
    /// owner of the database's directory, who can read it anyway.
    ///
    /// # Errors
    /// [`Error::OtherOwner`] for a link to what is another user's, unless it is a file that only its owner can write; [`Error::Host`].
    pub fn kind(&self, dir: &Directory, name: &OsStr) -> Result<Kind> {
        let path = || dir.path().join(name);
        let found = dir.inspect(name).map_err(cannot("inspect", path()))?;
        match found {
            None => Err(cannot("inspect", path())(std::io::ErrorKind::NotFound).into()),
            Some(meta) if meta.is_dir() => Ok(Kind::Directory),
            Some(meta) if meta.is_file() => Ok(Kind::File(meta.len())),
            Some(meta) if meta.is_symlink() => self.kind_of_link(dir, name),
            Some(_) => Ok(Kind::Other),
        }
    }

    fn kind_of_link(&self, dir: &Directory, name: &OsStr) -> Result<Kind> {
        let path = dir.path().join(name);
        let target = dir.link_target(name).map_err(cannot("read", &path))?;
        let Some(target) = target else {
            return Ok(Kind::Kept(dir.read_link(name).map_err(cannot("read", &path))?));
        };
        if let Ok(inside) = target.path().strip_prefix(&self.path) {
            return Ok(Kind::Inside(inside.to_owned()));
        }
        let meta = target.metadata().map_err(cannot("inspect", target.path()))?;
        if !meta.is_file() && !meta.is_dir() {
            return Ok(Kind::Other);
        }
        let is_theirs = meta.uid() == self.owner || !rustix::process::geteuid().is_root();
        match (is_theirs, meta.is_dir()) {
            (true, true) => Ok(Kind::OutsideDirectory(target)),
            (true, false) => Ok(Kind::OutsideFile(target, meta.len())),
            // A program that writes through the link in the copy must not reach the original.
            (false, false) if meta.mode() & 0o022 == 0 => Ok(Kind::Kept(target.path().to_owned())),
            (false, _) => {
                Err(Error::OtherOwner { link: path, target: target.path().to_owned(), owner: meta.uid() })
            }
        }
    }
}

/// Opens a directory in another one.
///
/// # Errors
/// [`Error::Host`].
pub(super) fn subdirectory(dir: &Directory, name: &OsStr) -> Result<Directory> {
    Ok(dir.directory(name).map_err(cannot("open", dir.path().join(name)))?)
}

/// The names in a directory, sorted; `depth` is its nesting below the database's directory.
///
/// # Errors
/// [`Error::Host`]; [`Error::Trial`] if `depth` exceeds [`DEEPEST`].
pub(super) fn entries(dir: &Directory, depth: usize) -> Result<Vec<OsString>> {
    if depth > DEEPEST {
        return Err(Error::Trial(format!(
            "{}: directories are nested too deeply, or in a loop of symbolic links",
            quoted(dir.path())
        )));
    }
    Ok(dir.names().map_err(cannot("list", dir.path()))?)
}
