//! A directory into which a part of a database is restored.
//!
//! All work goes through one descriptor of the directory: its parent may belong to the owner of the database, who could replace it with
//! another directory or a link at any time.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poolwright_apply::rewrite::{copy_directory_attributes, open_trusted};
use poolwright_base::directory::Directory;
use poolwright_base::{cannot, mountinfo, private, quoted};
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::process::geteuid;

use crate::error::refused;
use crate::{Error, Result};

/// The extended attribute of a directory that is not complete: the `id` of the backup.
const INCOMPLETE: &str = "user.poolwright.restore";
/// The mode of a directory that is not complete.
const HELD: u32 = private::DIR;
/// The mode of directories that are created above the target.
const PARENTS: u32 = 0o755;

/// An open directory, in which nothing can start until it is released.
#[derive(Debug)]
pub(super) struct TargetDirectory {
    /// Its path, for messages.
    pub path: PathBuf,
    /// Its path through the descriptor.
    pub at: PathBuf,
    /// The directory.
    pub dir: Directory,
    /// Whether an interrupted restore of the same backup has left it.
    was_interrupted: bool,
}

impl TargetDirectory {
    /// Creates a directory for the backup with this `id` if it is missing, and opens it.
    pub fn open(path: &Path, id: &str) -> Result<TargetDirectory> {
        let dir = Directory::create_named(path, PARENTS).map_err(|why| unusable("create", path, why))?;
        let was_interrupted = is_interrupted(&dir, id).map_err(cannot("inspect", path))?;
        // With the dot, it is a directory and not a link.
        let at = dir.descriptor_path().join(".");
        Ok(TargetDirectory { path: path.to_owned(), at, dir, was_interrupted })
    }

    /// Lets only this user enter it and the directories in it that lead to `others`, and marks it with the `id` of a backup. Refuses it if it
    /// has got files since it was [checked](check).
    pub fn hold(&self, others: &[&Path], id: &str) -> Result<()> {
        let mut held = vec![HeldDirectory::new(self.dir.directory("").map_err(cannot("open", &self.path))?)?];
        for way in others.iter().filter_map(|other| other.strip_prefix(&self.path).ok()?.parent()) {
            let dirs: Vec<&Path> = way.ancestors().filter(|dir| !dir.as_os_str().is_empty()).collect();
            // From above, so that another user cannot exchange the one below meanwhile.
            for dir in dirs.into_iter().rev() {
                let path = self.path.join(dir);
                held.push(HeldDirectory::new(self.dir.directory(dir).map_err(cannot("open", &path))?)?);
            }
        }
        if let Err(refusal) = check_contents(&self.dir, self.was_interrupted, others) {
            held.iter().rev().for_each(HeldDirectory::give_back);
            return Err(refusal);
        }
        // On a file system without extended attributes, a restore cannot be continued.
        let _ = fsetxattr(&self.dir, INCOMPLETE, id.as_bytes(), XattrFlags::empty());
        Ok(())
    }

    /// Gives it the attributes that it has in the backup, which removes the mark.
    pub fn release(&self, from: &Path) -> Result<()> {
        copy_directory_attributes(&open_trusted(from)?, &self.dir)?;
        Ok(self.dir.sync().map_err(cannot("sync", &self.path))?)
    }

    /// Writes what the host has cached.
    pub fn sync(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(&self.dir).map_err(cannot("sync", &self.path))?)
    }
}

/// A directory that only this user can enter, and what it was before.
struct HeldDirectory {
    dir: Directory,
    owner: (u32, u32),
    mode: u32,
}

impl HeldDirectory {
    fn new(dir: Directory) -> Result<HeldDirectory> {
        let meta = dir.metadata().map_err(cannot("inspect", dir.path()))?;
        let held = HeldDirectory { dir, owner: (meta.uid(), meta.gid()), mode: meta.mode() & 0o7777 };
        let path = held.dir.path();
        let owner = (geteuid().as_raw(), meta.gid());
        held.dir.give_to(owner).map_err(cannot("set the owner of", path))?;
        held.dir.set_mode(HELD).map_err(cannot("set the mode of", path))?;
        Ok(held)
    }

    fn give_back(&self) {
        let _ = self.dir.set_mode(self.mode).and_then(|()| self.dir.give_to(self.owner));
    }
}

/// Refuses a directory that has files, or other mounts than those of `others`, unless an interrupted restore of this backup has left it.
/// `others` are the other directories of the restore, which may be in it.
pub(super) fn check(dir: &Path, others: &[&Path], id: &str) -> Result<()> {
    let open = match Directory::open_named(dir) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        open => open.map_err(|why| unusable("open", dir, why))?,
    };
    let mounts = mountinfo::read()?;
    if let Some(other) = mountinfo::below(&mounts, dir).find(|mount| !is_expected(&mount.point, dir, others))
    {
        return refused(format!("{} is mounted in {}", quoted(&other.point), quoted(dir)));
    }
    let was_interrupted = is_interrupted(&open, id).map_err(cannot("inspect", dir))?;
    check_contents(&open, was_interrupted, others)
}

fn check_contents(dir: &Directory, was_interrupted: bool, others: &[&Path]) -> Result<()> {
    if was_interrupted || is_empty_but(dir, others)? {
        return Ok(());
    }
    refused(format!(
        "{} is not empty\nhint: move its files away, or restore below another directory; nothing is overwritten",
        quoted(dir.path())
    ))
}

/// A refusal if a path leads to something that cannot be a target.
fn unusable(what: &'static str, path: &Path, why: std::io::Error) -> Error {
    let shown = quoted(path);
    match private::refusal(&why) {
        None => cannot(what, path)(why).into(),
        Some(private::Unsafe::NotADirectory) => Error::Refused(format!(
            "{shown} is not a directory\nhint: remove it, or restore below another directory"
        )),
        Some(_) => {
            Error::Refused(format!("{shown} is not used: {why}\nhint: restore below another directory"))
        }
    }
}

fn is_expected(mount: &Path, dir: &Path, others: &[&Path]) -> bool {
    mount == dir || mount.starts_with(dir.join(".zfs")) || others.contains(&mount)
}

/// Whether an interrupted restore has left the directory: no other user has had it since.
fn is_interrupted(dir: &Directory, id: &str) -> std::io::Result<bool> {
    let (mut mark, meta) = ([0; 64], dir.metadata()?);
    let is_marked =
        fgetxattr(dir, INCOMPLETE, mark.as_mut_slice()).is_ok_and(|length| &mark[..length] == id.as_bytes());
    Ok(is_marked && meta.uid() == geteuid().as_raw() && meta.mode() & 0o777 == HELD)
}

/// Whether a directory contains nothing but the way to the `others`.
fn is_empty_but(dir: &Directory, others: &[&Path]) -> Result<bool> {
    for name in dir.names().map_err(cannot("list", dir.path()))? {
        let path = dir.path().join(&name);
        if name == ".zfs" || others.contains(&path.as_path()) {
            continue;
        }
        let leads_on = others.iter().any(|other| other.starts_with(&path));
        let inspect = || dir.inspect(&name).map_err(cannot("inspect", &path));
        if !leads_on || !inspect()?.is_some_and(|meta| meta.is_dir()) {
            return Ok(false);
        }
        let sub = dir.directory(&name).map_err(cannot("open", &path))?;
        if !is_empty_but(&sub, others)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let target = TargetDirectory::open(&pg, "b1").unwrap();
        assert!(is_allowed(&[], "b1"), "it is empty");
        fs::create_dir_all(&log).unwrap();
        assert!(
            is_allowed(&[&log], "b1") && !is_allowed(&[], "b1"),
            "another directory of the restore is in it"
        );
        fs::write(pg.join("a/file"), "").unwrap();
        assert!(!is_allowed(&[&log], "b1"));
        target.hold(&[&log], "b1").unwrap_err();
        fs::remove_file(pg.join("a/file")).unwrap();
        target.hold(&[&log], "b1").unwrap();
        fs::write(pg.join("a/file"), "").unwrap();
        let has_attributes = fgetxattr(&target.dir, INCOMPLETE, &mut [0_u8; 64][..]).is_ok();
        assert_eq!(is_allowed(&[&log], "b1"), has_attributes, "an interrupted restore");
        assert!(!is_allowed(&[&log], "b2"), "one of another backup");
        target.dir.set_mode(0o750).unwrap();
        assert!(!is_allowed(&[&log], "b1"), "its owner has opened it");
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(check(&dir.path().join("file"), &[], "b1").unwrap_err().is_refusal());
        std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
        assert!(check(&dir.path().join("link"), &[], "b1").unwrap_err().is_refusal());
        assert!(TargetDirectory::open(&dir.path().join("link"), "b1").is_err());
    }

    #[test]
    fn a_directory_that_is_moved_away_stays_the_target() {
        let dir = tempfile::tempdir().unwrap();
        let target = TargetDirectory::open(&dir.path().join("pg"), "b1").unwrap();
        fs::rename(&target.path, dir.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("/nonexistent", &target.path).unwrap();
        fs::write(target.at.join("file"), "").unwrap();
        assert!(dir.path().join("moved/file").exists());
    }

    /// The owner of the directories above exchanges them for links while root restores there.
    #[test]
    fn nothing_is_restored_through_links_of_another_user() {
        use std::os::unix::fs::symlink;

        use poolwright_apply::rewrite::TreeCopier;

        use poolwright_dbms::postgresql::data_dir::{Existing, create_empty};

        use crate::placement::turn_links;
        use crate::test_users::{Canary, NOBODY, give, is_root, passable_dir, while_another_user};

        const DURATION: std::time::Duration = std::time::Duration::from_secs(2);
        const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);
        if !is_root() {
            return;
        }
        let (dir, canary, backup) = (passable_dir(), Canary::new(), tempfile::tempdir().unwrap());
        fs::create_dir_all(backup.path().join("a/wal")).unwrap();
        fs::write(backup.path().join("a/table"), "rows").unwrap();
        symlink("/srv/pg/a", backup.path().join("link")).unwrap();
        give(backup.path(), NOBODY);
        let home = dir.path().join("home");
        fs::create_dir_all(home.join("above/pg")).unwrap();
        symlink(canary.dir(), home.join("link")).unwrap();
        symlink(canary.dir(), home.join("above/link")).unwrap();
        give(&home, NOBODY);
        let exchange = |a: &str, b: &str| {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let _ = rustix::fs::renameat_with(
                rustix::fs::CWD,
                home.join(a),
                rustix::fs::CWD,
                home.join(b),
                flags,
            );
        };
        let act = || {
            for (a, b) in [("above", "link"), ("above/pg", "above/link")] {
                exchange(a, b);
                exchange(a, b);
            }
            let _ = symlink(canary.dir(), home.join("above/pg/a"));
            let _ = fs::remove_file(home.join("above/pg/a"));
        };
        let target = home.join("above/pg");
        let (mut restored, start) = (0, std::time::Instant::now());
        let restore = || {
            check(&target, &[], "b1")?;
            let open = TargetDirectory::open(&target, "b1")?;
            open.hold(&[], "b1")?;
            TreeCopier::new(|_| Ok(())).copy_contents(&open_trusted(backup.path())?, &open.dir)?;
            turn_links(&open.dir, &home, &[Path::new("/srv/pg")])?;
            create_empty(&open.dir, "recovery.signal", NOBODY, Existing::Refused)?;
            open.release(backup.path())?;
            // For the next one, which fails if the other user has put something there.
            let _ = open.dir.names().unwrap().iter().try_for_each(|name| open.dir.remove_all(name));
            Ok::<(), Error>(())
        };
        while_another_user(NOBODY, act, || {
            while start.elapsed() < DURATION || (restored == 0 && start.elapsed() < LIMIT) {
                restored += u32::from(restore().is_ok());
            }
        });
        canary.check();
        assert!(restored > 0, "no restore came to its end");
    }
}
