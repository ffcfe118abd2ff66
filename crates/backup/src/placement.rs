//! Where the directories of a database are restored.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poolwright_host::directory::Directory;
use poolwright_host::private;

use crate::{Error, Result};

/// The path below `top` that corresponds to a path of the host.
pub(crate) fn below(top: &Path, path: &Path) -> PathBuf {
    top.join(path.strip_prefix("/").unwrap_or(path))
}

/// Turns absolute links in a directory that lead into `hosts`, the directories of the database, to their counterparts below `top`.
pub(crate) fn turn_links(dir: &Directory, top: &Path, hosts: &[&Path]) -> Result<()> {
    for name in dir.names().map_err(Error::host("list", dir.path()))? {
        let path = dir.path().join(&name);
        let meta = dir.inspect(&name).map_err(Error::host("inspect", &path))?;
        let Some(meta) = meta.filter(|_| name != ".zfs") else { continue };
        if meta.is_dir() {
            turn_links(&dir.directory(&name).map_err(Error::host("open", &path))?, top, hosts)?;
        } else if meta.is_symlink() {
            let target = dir.read_link(&name).map_err(Error::host("read", &path))?;
            if hosts.iter().any(|host| target.starts_with(host)) {
                dir.remove_file(&name).map_err(Error::host("remove", &path))?;
                dir.create_link(&name, &below(top, &target)).map_err(Error::host("create", &path))?;
                let owner = (meta.uid(), meta.gid());
                dir.set_owner(&name, owner).map_err(Error::host("set the owner of", &path))?;
            }
        }
    }
    Ok(())
}

/// Removes files that may not exist. A link is removed itself.
pub(crate) fn remove_files(dir: &Directory, names: &[&str]) -> Result<()> {
    for name in names {
        dir.remove_file(name).map_err(Error::host("remove", &dir.path().join(name)))?;
    }
    Ok(())
}

/// What is done about a file that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is an error.
    Refused,
    /// It stays as it is.
    Kept,
}

/// Creates an empty file that belongs to the owner of the database.
///
/// # Errors
/// The host's errors.
pub fn create_empty(dir: &Directory, name: &str, owner: (u32, u32), existing: Existing) -> Result<()> {
    let path = dir.path().join(name);
    let file = match dir.create_file(name, private::FILE) {
        Err(why) if why.kind() == ErrorKind::AlreadyExists && existing == Existing::Kept => return Ok(()),
        created => created.map_err(Error::host("create", &path))?,
    };
    std::os::unix::fs::fchown(&file, Some(owner.0), Some(owner.1))
        .map_err(Error::host("set the owner of", &path))?;
    file.sync_all().map_err(Error::host("sync", &path))
}

/// Replaces paths through descriptors in the text of an error by those that the user knows. `pairs` are both.
pub(crate) fn readable<'p>(cause: Error, pairs: impl IntoIterator<Item = (&'p Path, &'p Path)>) -> Error {
    if matches!(cause, Error::Interrupted) {
        return cause;
    }
    let text = cause.to_string();
    let named = pairs
        .into_iter()
        .fold(text.clone(), |text, (at, path)| text.replace(&*at.to_string_lossy(), &path.to_string_lossy()));
    if named == text { cause } else { Error::Restore(named) }
}
