//! What is below a database's directory: how much it is, and where it lies.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The deepest nesting that is followed: more is a loop of links.
const DEEPEST: usize = 64;

/// A database's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Lengths of all regular files.
    pub bytes: u64,
    /// Regular files.
    pub files: u64,
    /// The directory, and what symbolic links in it point at outside.
    pub roots: Vec<PathBuf>,
}

impl Tree {
    /// Looks at the directory, an absolute path without symbolic links.
    ///
    /// # Errors
    /// As the host says of a directory or file; a loop of symbolic links.
    pub fn look(dir: &Path) -> Result<Tree> {
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
        let meta = fs::metadata(&target).map_err(Error::host("looking at", &target))?;
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

/// What an entry of a directory is to a copy.
#[derive(Debug)]
pub(super) enum Kind {
    Directory,
    /// With its length in bytes.
    File(u64),
    /// A link to something in the database's directory, and its place there.
    Inside(PathBuf),
    /// A link to something elsewhere, which a copy holds itself: programs that write through the link would change the
    /// original.
    Outside(PathBuf),
    /// A link to nothing, and its text.
    Dangling(PathBuf),
    /// A socket, a pipe or a device.
    Other,
}

/// What an entry is; `top` is the database's directory.
pub(super) fn kind(path: &Path, top: &Path) -> Result<Kind> {
    let meta = fs::symlink_metadata(path).map_err(Error::host("looking at", path))?;
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
        return Ok(Kind::Dangling(fs::read_link(path).map_err(Error::host("reading", path))?));
    };
    Ok(match target.strip_prefix(top) {
        Ok(inside) => Kind::Inside(inside.to_owned()),
        Err(_) => Kind::Outside(target),
    })
}

/// The entries of a directory, by name.
pub(super) fn entries(dir: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    if depth > DEEPEST {
        return Err(Error::Trial(format!("{}: nested too deep, or a loop of symbolic links", dir.display())));
    }
    let listed = fs::read_dir(dir).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let mut paths: Vec<PathBuf> =
        listed.map_err(Error::host("listing", dir))?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}
