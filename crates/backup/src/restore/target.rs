//! A directory into which a part of a database is restored.
//!
//! All work goes through one descriptor of the directory: its parent may belong to the owner of the database, who could put another
//! directory, or a link, in its place meanwhile.

use std::fs::{self, DirBuilder, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use poolwright_apply::rewrite::{copy_directory_attributes, open_trusted};
use poolwright_host::directory::Directory;
use poolwright_host::{mountinfo, process, quoted};
use rustix::fs::{Mode, OFlags, XattrFlags, fchmod, fchown, fsetxattr, getxattr, open};
use rustix::process::{Uid, geteuid};

use crate::error::refused;
use crate::{Error, Result};

/// The extended attribute of a directory that is not complete: the `id` of the backup.
const INCOMPLETE: &str = "user.poolwright.restore";
/// The mode of a directory that is not complete.
const HELD: u32 = 0o700;

/// An open directory, in which nothing can start until it is released.
#[derive(Debug)]
pub(super) struct TargetDirectory {
    /// Its path, for messages.
    pub path: PathBuf,
    /// Its path through the descriptor.
    pub at: PathBuf,
    dir: File,
}

impl TargetDirectory {
    /// Creates a directory if it is missing, and opens it.
    pub fn open(path: &Path) -> Result<TargetDirectory> {
        if let Some(parent) = path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(parent);
            made.map_err(Error::host("create", parent))?;
        }
        match DirBuilder::new().mode(HELD).create(path) {
            Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.map_err(Error::host("create", path))?,
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = File::from(open(path, flags, Mode::empty()).map_err(Error::errno("open", path))?);
        // With the dot, it is a directory and not a link.
        let at = process::descriptor_path(std::process::id(), dir.as_raw_fd()).join(".");
        Ok(TargetDirectory { path: path.to_owned(), at, dir })
    }

    /// Lets only this user enter it, and marks it with the `id` of a backup.
    pub fn hold(&self, id: &str) -> Result<()> {
        let at = |what| Error::errno(what, &self.path);
        fchown(&self.dir, Some(geteuid()), None::<rustix::process::Gid>).map_err(at("set the owner of"))?;
        fchmod(&self.dir, Mode::from_raw_mode(HELD)).map_err(at("set the mode of"))?;
        // On a file system without extended attributes, a restore cannot be continued.
        let _ = fsetxattr(&self.dir, INCOMPLETE, id.as_bytes(), XattrFlags::empty());
        Ok(())
    }

    /// Gives it the attributes that it has in the backup, which removes the mark.
    pub fn release(&self, from: &Path) -> Result<()> {
        copy_directory_attributes(&open_trusted(from)?, &self.directory()?)?;
        self.dir.sync_all().map_err(Error::host("sync", &self.path))
    }

    /// The directory, whatever its path leads to by now.
    pub fn directory(&self) -> Result<Directory> {
        Ok(open_trusted(&self.at)?)
    }

    /// Writes what the host has cached.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.dir).map_err(Error::errno("sync", &self.path))
    }
}

/// Refuses a directory that has files, or other mounts than those of `others`, unless an interrupted restore of this backup has left it.
/// `others` are the other directories of the restore, which may be in it.
pub(super) fn check(dir: &Path, others: &[&Path], id: &str) -> Result<()> {
    let meta = match fs::symlink_metadata(dir) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        meta => meta.map_err(Error::host("inspect", dir))?,
    };
    if !meta.is_dir() {
        return refused(format!(
            "{} is not a directory\nhint: remove it, or restore below another directory",
            quoted(dir)
        ));
    }
    let mounts = mountinfo::read().map_err(Error::host("read", Path::new(mountinfo::PATH)))?;
    if let Some(other) = mountinfo::below(&mounts, dir).find(|mount| !is_expected(&mount.point, dir, others))
    {
        return refused(format!("{} is mounted in {}", quoted(&other.point), quoted(dir)));
    }
    if is_interrupted(dir, &meta, id) || is_empty_but(dir, others)? {
        return Ok(());
    }
    refused(format!(
        "{} is not empty\nhint: move its files away, or restore below another directory; nothing is overwritten",
        quoted(dir)
    ))
}

fn is_expected(mount: &Path, dir: &Path, others: &[&Path]) -> bool {
    mount == dir || mount.starts_with(dir.join(".zfs")) || others.contains(&mount)
}

/// Whether an interrupted restore has left the directory: no other user has had it since.
fn is_interrupted(dir: &Path, meta: &fs::Metadata, id: &str) -> bool {
    let mut mark = [0; 64];
    let is_marked =
        getxattr(dir, INCOMPLETE, mark.as_mut_slice()).is_ok_and(|length| &mark[..length] == id.as_bytes());
    is_marked && Uid::from_raw(meta.uid()) == geteuid() && meta.mode() & 0o777 == HELD
}

/// Whether a directory contains nothing but the way to the `others`.
fn is_empty_but(dir: &Path, others: &[&Path]) -> Result<bool> {
    for entry in fs::read_dir(dir).map_err(Error::host("list", dir))? {
        let entry = entry.map_err(Error::host("list", dir))?;
        let path = entry.path();
        if entry.file_name() == ".zfs" || others.contains(&path.as_path()) {
            continue;
        }
        let leads_on = others.iter().any(|other| other.starts_with(&path));
        let is_dir = entry.file_type().map_err(Error::host("inspect", &path))?.is_dir();
        if !(leads_on && is_dir && is_empty_but(&path, others)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_empty_directories_and_interrupted_ones_are_used() {
        let dir = tempfile::tempdir().unwrap();
        let (pg, log) = (dir.path().join("pg"), dir.path().join("pg/a/log"));
        let is_allowed = |others: &[&Path], id: &str| match check(&pg, others, id) {
            Ok(()) => true,
            Err(why) => {
                assert!(why.is_refusal(), "{why}");
                false
            }
        };
        assert!(is_allowed(&[], "b1"), "it is missing");
        let target = TargetDirectory::open(&pg).unwrap();
        assert!(is_allowed(&[], "b1"), "it is empty");
        fs::create_dir_all(&log).unwrap();
        assert!(
            is_allowed(&[&log], "b1") && !is_allowed(&[], "b1"),
            "another directory of the restore is in it"
        );
        fs::write(pg.join("a/file"), "").unwrap();
        assert!(!is_allowed(&[&log], "b1"));
        target.hold("b1").unwrap();
        let has_attributes = getxattr(&pg, INCOMPLETE, &mut [0_u8; 64][..]).is_ok();
        assert_eq!(is_allowed(&[&log], "b1"), has_attributes, "an interrupted restore");
        assert!(!is_allowed(&[&log], "b2"), "one of another backup");
        fchmod(&target.dir, Mode::from_raw_mode(0o750)).unwrap();
        assert!(!is_allowed(&[&log], "b1"), "its owner has opened it");
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(check(&dir.path().join("file"), &[], "b1").unwrap_err().is_refusal());
        std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
        assert!(check(&dir.path().join("link"), &[], "b1").unwrap_err().is_refusal());
        assert!(TargetDirectory::open(&dir.path().join("link")).is_err());
    }

    #[test]
    fn a_directory_that_is_moved_away_stays_the_target() {
        let dir = tempfile::tempdir().unwrap();
        let target = TargetDirectory::open(&dir.path().join("pg")).unwrap();
        fs::rename(&target.path, dir.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("/nonexistent", &target.path).unwrap();
        fs::write(target.at.join("file"), "").unwrap();
        assert!(dir.path().join("moved/file").exists());
    }
}
