//! Copies a database's files with their holes, modes, times and, as root, owners. The original is only read.

use std::fs::{self, File, FileTimes};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown, lchown, symlink};
use std::path::Path;

use poolwright_host::extents::next_data;

use crate::tree::{Kind, entries, kind};
use crate::{Error, Result};

/// The number of bytes in one read and write.
const CHUNK: usize = 1 << 20;

/// Called with the bytes copied so far; returns whether to continue.
pub type Continue<'a> = dyn FnMut(u64) -> bool + 'a;

/// Copies the content of `from` into the directory `to`, which may already contain empty directories.
///
/// Symbolic links into `from` become links into the copy. Other links are replaced by a copy of their target, so that programs
/// that write through the link do not change the original.
///
/// # Errors
/// [`Error::Host`]; [`Error::Interrupted`] if `proceed` returns `false`.
pub fn copy(from: &Path, to: &Path, proceed: &mut Continue<'_>) -> Result<()> {
    Copy { top: from, copy: to, done: 0, buffer: vec![0; CHUNK], proceed }.directory(from, to, 0)
}

struct Copy<'a, 'b> {
    top: &'a Path,
    copy: &'a Path,
    done: u64,
    buffer: Vec<u8>,
    proceed: &'a mut Continue<'b>,
}

impl Copy<'_, '_> {
    fn directory(&mut self, from: &Path, to: &Path, depth: usize) -> Result<()> {
        match fs::create_dir(to) {
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.map_err(Error::host("create", to))?,
        }
        for entry in entries(from, depth)? {
            let target = to.join(entry.file_name().expect("an entry has a name"));
            match kind(&entry, self.top)? {
                Kind::Directory => self.directory(&entry, &target, depth + 1)?,
                Kind::File(_) => self.file(&entry, &target)?,
                Kind::Inside(path) => link(&self.copy.join(path), &target)?,
                Kind::Dangling(text) => link(&text, &target)?,
                Kind::Outside(original) if original.is_dir() => {
                    self.directory(&original, &target, depth + 1)?
                }
                Kind::Outside(original) if original.is_file() => self.file(&original, &target)?,
                Kind::Outside(_) | Kind::Other => {}
            }
        }
        // The mode is set last, because a directory without write permission cannot be filled.
        let meta = fs::metadata(from).map_err(Error::host("inspect", from))?;
        if is_root() {
            lchown(to, Some(meta.uid()), Some(meta.gid())).map_err(Error::host("change the owner of", to))?;
        }
        let mode = fs::Permissions::from_mode(meta.mode() & 0o7777);
        fs::set_permissions(to, mode).map_err(Error::host("change the mode of", to))
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<()> {
        let mut source = poolwright_host::regular::open(from).map_err(Error::host("open", from))?;
        let meta = source.metadata().map_err(Error::host("inspect", from))?;
        let mut target =
            File::options().write(true).create_new(true).open(to).map_err(Error::host("create", to))?;
        let mut at = 0;
        while let Some((start, end)) =
            next_data(&source, at, meta.len()).map_err(Error::host("read", from))?
        {
            self.extent((&mut source, from), (&mut target, to), start, end)?;
            at = end;
        }
        let finish = || {
            target.set_len(meta.len())?;
            if is_root() {
                fchown(&target, Some(meta.uid()), Some(meta.gid()))?;
            }
            target.set_permissions(fs::Permissions::from_mode(meta.mode() & 0o7777))?;
            target.set_times(FileTimes::new().set_modified(meta.modified()?).set_accessed(meta.accessed()?))
        };
        finish().map_err(Error::host("write", to))
    }

    fn extent(
        &mut self,
        (source, from): (&mut File, &Path),
        (target, to): (&mut File, &Path),
        start: u64,
        end: u64,
    ) -> Result<()> {
        source.seek(SeekFrom::Start(start)).map_err(Error::host("read", from))?;
        target.seek(SeekFrom::Start(start)).map_err(Error::host("write", to))?;
        let mut left = end - start;
        while left > 0 {
            let most = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let n = source.read(&mut self.buffer[..most]).map_err(Error::host("read", from))?;
            if n == 0 {
                return Ok(()); // the file was truncated meanwhile
            }
            target.write_all(&self.buffer[..n]).map_err(Error::host("write", to))?;
            left -= n as u64;
            self.done += n as u64;
            if !(self.proceed)(self.done) {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn link(text: &Path, at: &Path) -> Result<()> {
    symlink(text, at).map_err(Error::host("create", at))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::tree::Tree;

    #[test]
    fn holes_modes_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (from, to, log) = (base.join("db"), base.join("copy"), base.join("log"));
        for made in [&from.join("sub/deep"), &to.join("sub"), &log] {
            fs::create_dir_all(made).unwrap();
        }
        fs::write(log.join("wal.1"), "a log elsewhere").unwrap();
        fs::write(from.join("table"), "rows").unwrap();
        fs::set_permissions(from.join("table"), fs::Permissions::from_mode(0o640)).unwrap();
        let sparse = File::create(from.join("sub/sparse")).unwrap();
        sparse.write_all_at(b"end", (64 << 20) - 3).unwrap();
        symlink(&log, from.join("wal")).unwrap();
        symlink(from.join("table"), from.join("sub/deep/absolute")).unwrap();
        symlink("../../table", from.join("sub/deep/relative")).unwrap();
        symlink("/nowhere/at/all", from.join("dangling")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap());

        let tree = Tree::scan(&from).unwrap();
        assert_eq!((tree.files, tree.bytes), (3, 4 + (64 << 20) + 15));
        assert_eq!(tree.roots, [from.clone(), log.clone()]);
        let mut done = 0;
        copy(&from, &to, &mut |bytes| {
            done = bytes;
            true
        })
        .unwrap();
        assert_eq!(fs::read(to.join("table")).unwrap(), b"rows");
        assert_eq!(fs::metadata(to.join("table")).unwrap().mode() & 0o777, 0o640);
        let copied = fs::metadata(to.join("sub/sparse")).unwrap();
        assert_eq!(copied.len(), 64 << 20);
        assert!(copied.blocks() * 512 < 8 << 20 && done < 8 << 20, "holes stay holes: {done}");
        assert_eq!(fs::read(to.join("wal/wal.1")).unwrap(), b"a log elsewhere");
        assert!(
            !fs::symlink_metadata(to.join("wal")).unwrap().is_symlink(),
            "writes would reach the original"
        );
        for name in ["absolute", "relative"] {
            assert_eq!(fs::canonicalize(to.join("sub/deep").join(name)).unwrap(), to.join("table"));
        }
        assert_eq!(fs::read_link(to.join("dangling")).unwrap(), Path::new("/nowhere/at/all"));
        assert!(!to.join("socket").exists());
    }

    #[test]
    fn a_copy_ends_when_it_is_told_to() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("db"), dir.path().join("copy"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("big"), vec![1; 4 << 20]).unwrap();
        let ended = copy(&from, &to, &mut |bytes| bytes < 2 << 20);
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
        assert!(fs::metadata(to.join("big")).unwrap().len() <= 2 << 20);
    }

    #[test]
    fn a_loop_of_links_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("db")).unwrap();
        fs::create_dir_all(base.join("other")).unwrap();
        symlink(base.join("other"), base.join("db/out")).unwrap();
        symlink(base.join("other"), base.join("other/again")).unwrap();
        let why = Tree::scan(&base.join("db")).unwrap_err().to_string();
        assert!(why.contains("loop of symbolic links"), "{why}");
    }
}
