//! The files below a database's directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poolwright_host::quoted;

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
    /// [`Error::Host`]; [`Error::Trial`] for a loop of symbolic links.
    pub fn scan(dir: &Path) -> Result<Tree> {
        let mut tree = Tree { roots: vec![dir.to_owned()], ..Tree::default() };
        tree.add(dir, dir, 0)?;
        Ok(tree)
    }

    fn add(&mut self, dir: &Path, top: &Path, depth: usize) -> Result<()> {
        for entry in entries(dir, depth)? {
            match kind(&entry, top)? {
                Kind::Directory => self.add(&entry, top, depth + 1)?,
                Kind::File(bytes) => {
                    self.bytes += bytes;
                    self.files += 1;
                }
                Kind::Outside(target) => self.outside(target, top, depth)?,
                Kind::Inside(_) | Kind::Dangling(_) | Kind::Other => {}
            }
        }
        Ok(())
    }

    fn outside(&mut self, target: PathBuf, top: &Path, depth: usize) -> Result<()> {
        let meta = fs::metadata(&target).map_err(Error::host("inspect", &target))?;
        if meta.is_dir() {
            self.add(&target, top, depth + 1)?;
        } else if meta.is_file() {
            self.bytes += meta.len();
            self.files += 1;
        }
        self.roots.push(target);
        Ok(())
    }
}

/// The kind of a directory entry, as a copy treats it.
#[derive(Debug)]
pub(super) enum Kind {
    Directory,
    /// With its length in bytes.
    File(u64),
    /// A link to a file in the database's directory, and the path relative to it.
    Inside(PathBuf),
    /// A link to a file elsewhere, and its path. A copy contains the file instead of the link.
    Outside(PathBuf),
    /// A link whose target does not exist, and its text.
    Dangling(PathBuf),
    /// A socket, a pipe or a device.
    Other,
}

/// The kind of an entry; `top` is the database's directory.
///
/// # Errors
/// [`Error::Host`].
pub(super) fn kind(path: &Path, top: &Path) -> Result<Kind> {
    let meta = fs::symlink_metadata(path).map_err(Error::host("inspect", path))?;
    if meta.is_dir() {
        return Ok(Kind::Directory);
    }
    if meta.is_file() {
        return Ok(Kind::File(meta.size()));
    }
    if !meta.is_symlink() {
        return Ok(Kind::Other);
    }
    let Ok(target) = path.canonicalize() else {
        return Ok(Kind::Dangling(fs::read_link(path).map_err(Error::host("read", path))?));
    };
    Ok(match target.strip_prefix(top) {
        Ok(inside) => Kind::Inside(inside.to_owned()),
        Err(_) => Kind::Outside(target),
    })
}

/// The entries of a directory in the order of their names; `depth` is its nesting below the database's directory.
///
/// # Errors
/// [`Error::Host`]; [`Error::Trial`] if `depth` exceeds [`DEEPEST`].
pub(super) fn entries(dir: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    if depth > DEEPEST {
        return Err(Error::Trial(format!(
            "{}: directories are nested too deeply, or in a loop of symbolic links",
            quoted(&dir)
        )));
    }
    let listed = fs::read_dir(dir).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let mut paths: Vec<PathBuf> =
        listed.map_err(Error::host("list", dir))?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}
