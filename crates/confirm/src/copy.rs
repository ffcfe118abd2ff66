//! Copies a database's files with their holes, modes, times and, as root, owners. The original is only read.
//!
//! The database's user can rename and link anything in the original meanwhile, and in the copy as soon as it is its own. So both are
//! reached by open directories ([`poolwright_base::directory`]).

use std::ffi::OsStr;
use std::fs::{File, FileTimes, Metadata, Permissions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use poolwright_base::directory::{Access, Directory};
use poolwright_base::extents::next_data;
use poolwright_base::{cannot, private};

use crate::tree::{DatabaseDirectory, Kind, entries, subdirectory};
use crate::{Error, Result};

/// The number of bytes in one read and write.
const CHUNK: usize = 1 << 20;

/// Called with the bytes copied so far; returns whether to continue.
pub type Continue<'a> = dyn FnMut(u64) -> bool + 'a;

/// Copies the content of `from` into the directory `to`, which may already contain empty directories. `from` is an absolute path without
/// symbolic links.
///
/// Symbolic links into `from` become links into the copy. Links to other files of the same owner are replaced by a copy of their target,
/// so that programs that write through the link do not change the original ([`DatabaseDirectory::kind`]).
///
/// # Errors
/// As [`DatabaseDirectory::kind`]; [`Error::Interrupted`] if `proceed` returns `false`.
pub fn copy(from: &Path, to: &Path, proceed: &mut Continue<'_>) -> Result<()> {
    let database = DatabaseDirectory::open(from)?;
    let copy = Directory::open(to).map_err(cannot("open", to))?;
    Copy { database: &database, copy: to, done: 0, buffer: vec![0; CHUNK], proceed }.directory(
        &database.top,
        &copy,
        0,
    )
}

struct Copy<'a, 'b> {
    database: &'a DatabaseDirectory,
    copy: &'a Path,
    done: u64,
    buffer: Vec<u8>,
    proceed: &'a mut Continue<'b>,
}

impl Copy<'_, '_> {
    fn directory(&mut self, from: &Directory, to: &Directory, depth: usize) -> Result<()> {
        for name in entries(from, depth)? {
            let path = from.path().join(&name);
            match self.database.kind(from, &name)? {
                Kind::Directory => {
                    self.directory(&subdirectory(from, &name)?, &made(to, &name)?, depth + 1)?;
                }
                Kind::File(_) => {
                    let file = from.file(&name, Access::Read).map_err(cannot("open", &path))?;
                    self.file((file, &path), to, &name)?;
                }
                Kind::Inside(path) => link(&self.copy.join(path), to, &name)?,
                Kind::Kept(target) => link(&target, to, &name)?,
                Kind::OutsideDirectory(target) => {
                    let original = target.directory().map_err(cannot("open", target.path()))?;
                    self.directory(&original, &made(to, &name)?, depth + 1)?;
                }
                Kind::OutsideFile(target, _) => {
                    let file = target.file().map_err(cannot("open", target.path()))?;
                    self.file((file, target.path()), to, &name)?;
                }
                Kind::Other => {}
            }
        }
        let meta = from.metadata().map_err(cannot("inspect", from.path()))?;
        // These are set last, because a directory without write permission cannot be filled, and its owner could rename what is in it.
        let open = to.try_clone_file().map_err(cannot("open", to.path()))?;
        Ok(give(&open, &meta).map_err(cannot("set the owner and mode of", to.path()))?)
    }

    fn file(&mut self, (mut source, from): (File, &Path), to: &Directory, name: &OsStr) -> Result<()> {
        let path = to.path().join(name);
        let meta = source.metadata().map_err(cannot("inspect", from))?;
        let mut target = to.create_file(name, private::FILE).map_err(cannot("create", &path))?;
        let mut at = 0;
        while let Some((start, end)) = next_data(&source, at, meta.len()).map_err(cannot("read", from))? {
            self.extent((&mut source, from), (&mut target, &path), start, end)?;
            at = end;
        }
        let finish = || {
            target.set_len(meta.len())?;
            give(&target, &meta)?;
            target.set_times(FileTimes::new().set_modified(meta.modified()?).set_accessed(meta.accessed()?))
        };
        Ok(finish().map_err(cannot("write", &path))?)
    }

    fn extent(
        &mut self,
        (source, from): (&mut File, &Path),
        (target, to): (&mut File, &Path),
        start: u64,
        end: u64,
    ) -> Result<()> {
        source.seek(SeekFrom::Start(start)).map_err(cannot("read", from))?;
        target.seek(SeekFrom::Start(start)).map_err(cannot("write", to))?;
        let mut left = end - start;
        while left > 0 {
            let most = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let n = source.read(&mut self.buffer[..most]).map_err(cannot("read", from))?;
            if n == 0 {
                return Ok(()); // the file was truncated meanwhile
            }
            target.write_all(&self.buffer[..n]).map_err(cannot("write", to))?;
            left -= n as u64;
            self.done += n as u64;
            if !(self.proceed)(self.done) {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }
}

/// Sets mode and, as root, owner of an open file or directory to those of the original.
fn give(open: &File, original: &Metadata) -> std::io::Result<()> {
    if rustix::process::geteuid().is_root() {
        fchown(open, Some(original.uid()), Some(original.gid()))?;
    }
    open.set_permissions(Permissions::from_mode(original.mode() & 0o7777))
}

/// Creates a directory in the copy, or opens the one that is there.
fn made(to: &Directory, name: &OsStr) -> Result<Directory> {
    let made = match to.create_directory(name) {
        Err(why) if why.kind() == ErrorKind::AlreadyExists => to.directory(name),
        made => made,
    };
    Ok(made.map_err(cannot("create", to.path().join(name)))?)
}

fn link(target: &Path, to: &Directory, name: &OsStr) -> Result<()> {
    Ok(to.create_link(name, target).map_err(cannot("create", to.path().join(name)))?)
}

#[cfg(test)]
mod tests;
