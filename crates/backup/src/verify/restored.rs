//! A backup that was copied into a scratch directory.
//!
//! Each directory of the database is restored below `restored`, followed by its path on the host. So relative links stay right, and
//! absolute ones into the database's directories are turned to the restored ones.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, fchown};
use std::path::{Path, PathBuf};

use poolwright_apply::rewrite::{TreeContents, make_trusted, open_trusted};
use poolwright_host::private;

use crate::manifest::BackupManifest;
use crate::observer::BackupObserver;
use crate::placement::{below, turn_links};
use crate::transfer;
use crate::{Error, Result};

/// The directories of a restored database.
#[derive(Debug)]
pub(super) struct RestoredTree {
    /// The directory in the scratch directory, which only the owner of the database can enter.
    pub scratch: PathBuf,
    /// The restored directories, in the order of the manifest's sources.
    pub paths: Vec<PathBuf>,
    /// The user and the group that own the database's files.
    pub owner: (u32, u32),
    /// The directory below which the paths of the host are.
    top: PathBuf,
}

impl RestoredTree {
    /// Copies a backup, whose snapshot is `root`, into the scratch directory.
    pub fn copy(
        root: &Path,
        backup: &BackupManifest,
        scratch: &Path,
        rate: Option<u64>,
        observer: &mut dyn BackupObserver,
    ) -> Result<(RestoredTree, TreeContents)> {
        // The lock of the scratch directory belongs to this user; the directory in it, to the owner of the database.
        let enterable = fs::set_permissions(scratch, fs::Permissions::from_mode(0o711));
        enterable.map_err(Error::host("set the mode of", scratch))?;
        let scratch = &scratch.join("restore");
        poolwright_host::private::make_dir(scratch).map_err(Error::host("create", scratch))?;
        let top = scratch.join("restored");
        let (mut paths, mut owner, mut sum) = (Vec::new(), (0, 0), TreeContents::default());
        let mut copier = transfer::copier(observer, rate, backup.bytes);
        for (index, source) in backup.sources.iter().enumerate() {
            let from = root.join(&source.copy);
            let to = below(&top, &source.path);
            if index == 0 {
                let meta = fs::metadata(&from).map_err(Error::host("inspect", &from))?;
                owner = (meta.uid(), meta.gid());
            }
            make_parents(scratch, &to, owner)?;
            let contents = copier.copy(&open_trusted(&from)?, &make_trusted(&to)?)?;
            sum.files += contents.files;
            sum.bytes += contents.bytes;
            paths.push(to);
        }
        chown(scratch, Some(owner.0), Some(owner.1)).map_err(Error::host("set the owner of", scratch))?;
        let tree = RestoredTree { scratch: scratch.to_owned(), paths, owner, top };
        let hosts: Vec<&Path> = backup.sources.iter().map(|source| source.path.as_path()).collect();
        turn_links(&tree.top, &tree.top, &hosts)?;
        Ok((tree, sum))
    }

    /// The restored counterpart of a path of the host.
    pub fn counterpart(&self, path: &Path) -> PathBuf {
        below(&self.top, path)
    }

    /// Makes a directory in the scratch directory, which belongs to the owner of the database.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.scratch.join(name);
        fs::create_dir(&dir).map_err(Error::host("create", &dir))?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).map_err(Error::host("create", &dir))?;
        chown(&dir, Some(self.owner.0), Some(self.owner.1)).map_err(Error::host("set the owner of", &dir))?;
        Ok(dir)
    }

    /// Writes a file into the scratch directory, which belongs to the owner of the database.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.scratch.join(name);
        let mut file = self.create(&path)?;
        file.write_all(text.as_bytes()).map_err(Error::host("write", &path))?;
        Ok(path)
    }

    /// Creates a file, which must not exist, and gives it to the owner of the database.
    pub fn create(&self, path: &Path) -> Result<File> {
        let file = private::create_new(path).map_err(Error::host("create", path))?;
        fchown(&file, Some(self.owner.0), Some(self.owner.1))
            .map_err(Error::host("set the owner of", path))?;
        Ok(file)
    }
}

/// Makes the directories between the scratch directory and a restored one.
fn make_parents(scratch: &Path, path: &Path, owner: (u32, u32)) -> Result<()> {
    let mut missing: Vec<&Path> =
        path.ancestors().skip(1).take_while(|dir| *dir != scratch && !dir.exists()).collect();
    missing.reverse();
    for dir in missing {
        fs::create_dir(dir).map_err(Error::host("create", dir))?;
        chown(dir, Some(owner.0), Some(owner.1)).map_err(Error::host("set the owner of", dir))?;
    }
    Ok(())
}
