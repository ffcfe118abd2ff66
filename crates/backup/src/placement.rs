//! Where the directories of a database are restored.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The path below `top` that corresponds to a path of the host.
pub(crate) fn below(top: &Path, path: &Path) -> PathBuf {
    top.join(path.strip_prefix("/").unwrap_or(path))
}

/// Turns absolute links in a directory that lead into `hosts`, the directories of the database, to their counterparts below `top`.
pub(crate) fn turn_links(dir: &Path, top: &Path, hosts: &[&Path]) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(Error::host("list", dir))? {
        let path = entry.map_err(Error::host("list", dir))?.path();
        let meta = fs::symlink_metadata(&path).map_err(Error::host("inspect", &path))?;
        if meta.is_dir() {
            turn_links(&path, top, hosts)?;
        } else if meta.is_symlink() {
            let target = fs::read_link(&path).map_err(Error::host("read", &path))?;
            if hosts.iter().any(|host| target.starts_with(host)) {
                fs::remove_file(&path).map_err(Error::host("remove", &path))?;
                symlink(below(top, &target), &path).map_err(Error::host("create", &path))?;
                lchown(&path, Some(meta.uid()), Some(meta.gid()))
                    .map_err(Error::host("set the owner of", &path))?;
            }
        }
    }
    Ok(())
}

/// Removes a file, if it exists. A link is removed itself.
pub(crate) fn remove_if_present(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::host("remove", path)),
    }
}
