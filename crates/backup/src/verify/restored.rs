//! A backup that was copied into a scratch directory.
//!
//! Each directory of the database is restored below `restore/restored`, followed by its path on the host. So relative links stay valid;
//! absolute links into the database's directories are redirected to the restored ones.
//!
//! Only root can enter the directory `restore` until [`RestoredTree::give_to`] makes it the property of the database's owner. After that,
//! root does nothing in it: files that root creates for the database's programs are in the scratch directory itself, which still belongs to
//! root.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use poolwright_apply::rewrite::{EntryAt, TreeContents, open_trusted};
use poolwright_base::directory::Directory;
use poolwright_base::{Scratch, cannot};
use poolwright_dbms::database;
use poolwright_dbms::owner::{self, UserAndGroup};

use crate::Result;
use crate::error::refused;
use crate::manifest::BackupManifest;
use crate::observer::BackupObserver;
use crate::placement::{below, turn_links};
use crate::transfer;

/// The mode of directories through which the owner of the database passes.
const PASSABLE: u32 = 0o711;

/// The directories of a restored database.
#[derive(Debug)]
pub(super) struct RestoredTree {
    /// The scratch directory, in which only this user can create something.
    pub scratch: Directory,
    /// The restored directories, in the order of the manifest's sources.
    pub paths: Vec<PathBuf>,
    /// The database's own directory among them.
    pub root: PathBuf,
    /// The user and the group that own that directory, as whom programs run.
    pub owner: UserAndGroup,
    /// The directory that is given away.
    restore: Directory,
    /// The directory in it below which the paths of the host are.
    top: Directory,
}

impl RestoredTree {
    /// Copies a backup, whose snapshot is `root`, into the scratch directory.
    pub fn copy(
        root: &Path,
        backup: &BackupManifest,
        scratch: &Scratch,
        rate: Option<u64>,
        observer: &mut dyn BackupObserver,
    ) -> Result<(RestoredTree, TreeContents)> {
        let at = scratch.path();
        let scratch = Directory::open(at).map_err(cannot("open", at))?;
        scratch.set_mode(PASSABLE).map_err(cannot("set the mode of", at))?;
        let restore = create(&scratch, OsStr::new("restore"))?;
        let top = create(&restore, OsStr::new("restored"))?;
        top.set_mode(PASSABLE).map_err(cannot("set the mode of", top.path()))?;
        let (mut paths, mut sum) = (Vec::new(), TreeContents::default());
        let mut copier = transfer::copier(observer, rate, backup.bytes);
        for source in &backup.sources {
            let to = below(top.path(), &source.path);
            let (parent, name) = make_parents(&top, &to)?;
            let target = EntryAt::new(&parent, name).make_directory()?;
            let contents = copier.copy(&open_trusted(&root.join(&source.copy))?, &target)?;
            sum.files += contents.files;
            sum.bytes += contents.bytes;
            paths.push(to);
        }
        drop(copier);
        let hosts: Vec<&Path> = backup.sources.iter().map(|source| source.path.as_path()).collect();
        turn_links(&top, top.path(), &hosts)?;
        let root = database::locate(&paths, Some(backup.database.kind), false)?.root;
        let (_, owner) = own_directory(&top, &root)?;
        Ok((RestoredTree { scratch, paths, root, owner, restore, top }, sum))
    }

    /// The database's own directory, which must not be given away yet.
    pub fn own_directory(&self) -> Result<Directory> {
        own_directory(&self.top, &self.root).map(|(dir, _)| dir)
    }

    /// Lets a user enter it, the owner of all or a part of it, and nobody else.
    pub fn give_to(&self, owner: UserAndGroup) -> Result<()> {
        Ok(self.restore.give_to(owner).map_err(cannot("set the owner of", self.restore.path()))?)
    }

    /// The restored counterpart of a path of the host.
    pub fn counterpart(&self, path: &Path) -> PathBuf {
        below(self.top.path(), path)
    }

    /// Makes a directory next to it, which belongs to the owner of the database.
    pub fn make_dir(&self, name: &str) -> Result<Directory> {
        let dir = create(&self.scratch, OsStr::new(name))?;
        dir.give_to(self.owner).map_err(cannot("set the owner of", dir.path()))?;
        Ok(dir)
    }
}

/// The database's own directory, and its owner.
fn own_directory(top: &Directory, root: &Path) -> Result<(Directory, UserAndGroup)> {
    let dir = top.relative(root).and_then(|path| top.directory(path));
    let dir = dir.map_err(cannot("open", root))?;
    let owner = owner::of_restored(&dir, top).map_err(cannot("inspect", root))?;
    Ok((dir, owner))
}

fn create(dir: &Directory, name: &OsStr) -> Result<Directory> {
    Ok(dir.create_directory(name).map_err(cannot("create", dir.path().join(name)))?)
}

/// Makes the directories above a restored one. Returns the last of them, and the name of the restored one in it.
fn make_parents<'p>(top: &Directory, path: &'p Path) -> Result<(Directory, &'p OsStr)> {
    let relative = path.strip_prefix(top.path()).unwrap_or(path);
    let (Some(parents), Some(name)) = (relative.parent(), relative.file_name()) else {
        return refused("the root directory of a host cannot be restored");
    };
    let mut dir = top.directory("").map_err(cannot("open", top.path()))?;
    for name in parents {
        let path = dir.path().join(name);
        dir = match dir.inspect(name).map_err(cannot("inspect", &path))? {
            Some(_) => dir.directory(name).map_err(cannot("open", &path))?,
            None => {
                let made = create(&dir, name)?;
                made.set_mode(PASSABLE).map_err(cannot("set the mode of", &path))?;
                made
            }
        };
    }
    Ok((dir, name))
}
