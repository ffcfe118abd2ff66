//! The target directories of a restore.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poolwright_base::cannot;
use poolwright_base::directory::Directory;

use crate::{Error, Result};

/// The path below `top` that corresponds to a path of the host.
pub(crate) fn below(top: &Path, path: &Path) -> PathBuf {
    top.join(path.strip_prefix("/").unwrap_or(path))
}

/// Turns absolute links in a directory that lead into `hosts`, the directories of the database, to their counterparts below `top`.
pub(crate) fn turn_links(dir: &Directory, top: &Path, hosts: &[&Path]) -> Result<()> {
    for name in dir.names().map_err(cannot("list", dir.path()))? {
        let path = dir.path().join(&name);
        let meta = dir.inspect(&name).map_err(cannot("inspect", &path))?;
        let Some(meta) = meta.filter(|_| name != ".zfs") else { continue };
        if meta.is_dir() {
            turn_links(&dir.directory(&name).map_err(cannot("open", &path))?, top, hosts)?;
        } else if meta.is_symlink() {
            let target = dir.read_link(&name).map_err(cannot("read", &path))?;
            if hosts.iter().any(|host| target.starts_with(host)) {
                dir.remove_file(&name).map_err(cannot("remove", &path))?;
                dir.create_link(&name, &below(top, &target)).map_err(cannot("create", &path))?;
                let owner = (meta.uid(), meta.gid());
                dir.set_owner(&name, owner).map_err(cannot("set the owner of", &path))?;
            }
        }
    }
    Ok(())
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
