//! Updates the copy in a dataset of backups, and takes the snapshot that becomes the backup.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use poolwright_apply::json_file;
use poolwright_apply::rewrite::{Rate, TreeContents, TreeCopier, make_trusted, open_trusted};
use poolwright_base::{cannot, private};
use poolwright_zfs::kernel::DatasetChange;

use crate::destination::BackupDestination;
use crate::manifest::{self, BackupManifest, FILES, MANIFEST};
use crate::observer::{BackupObserver, BackupStage};
use crate::{Error, Result};

/// Copies and compares trees at a limited rate (in bytes a second), and shows the progress towards `total` bytes.
pub(crate) fn copier(observer: &mut dyn BackupObserver, rate: Option<u64>, total: u64) -> TreeCopier<'_> {
    let (mut rate, mut done) = (Rate::new(rate), 0);
    TreeCopier::new(move |bytes| {
        rate.wait(bytes);
        done += bytes;
        observer.progress(done, total);
        if observer.is_interrupted() { Err(poolwright_apply::Error::Interrupted) } else { Ok(()) }
    })
}

/// Makes directories of the dataset equal to others, writing only what differs, and compares them. Each pair is a directory in a
/// snapshot, and its copy. `rate` is the limit in bytes a second, `total` the number of bytes for the progress.
pub(crate) fn bring_up_to_date(
    destination: &BackupDestination,
    pairs: &[(PathBuf, PathBuf)],
    rate: Option<u64>,
    total: u64,
    observer: &mut dyn BackupObserver,
) -> Result<TreeContents> {
    make_files_dir(destination)?;
    let mut sum = TreeContents::default();
    observer.stage(BackupStage::Copy);
    let mut copying = copier(observer, rate, total);
    for (from, to) in pairs {
        let contents = copying.copy(&open_trusted(from)?, &make_trusted(to)?)?;
        sum.files += contents.files;
        sum.bytes += contents.bytes;
        sum.skipped.extend(contents.skipped.into_iter().map(|path| relative_to(&path, from)));
    }
    drop(copying);
    sync(destination)?;
    observer.stage(BackupStage::Compare);
    let mut comparing = copier(observer, rate, total);
    for (from, to) in pairs {
        comparing.compare(&open_trusted(from)?, &open_trusted(to)?)?;
    }
    Ok(sum)
}

/// Writes the manifest, takes the snapshot, and reads the manifest from it.
pub(crate) fn complete(
    destination: &BackupDestination,
    backup: &BackupManifest,
    observer: &mut dyn BackupObserver,
) -> Result<()> {
    observer.stage(BackupStage::Complete);
    json_file::write(&destination.mountpoint().join(MANIFEST), backup)?;
    sync(destination)?;
    let name = format!("{}@{}", destination.dataset(), backup.name);
    destination.admin().change(&DatasetChange::Snapshot { name })?;
    let root = destination.root_of(&backup.name);
    if manifest::read_manifest(&root)?.as_ref() != Some(backup) {
        let why = "it is not the one that was written".to_owned();
        return Err(Error::Damaged { path: root.join(MANIFEST), why });
    }
    Ok(())
}

fn relative_to(path: &Path, from: &Path) -> PathBuf {
    path.strip_prefix(from).unwrap_or(path).to_owned()
}

fn make_files_dir(destination: &BackupDestination) -> Result<()> {
    let dir = destination.mountpoint().join(FILES);
    match private::make_dir(&dir) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => Ok(made.map_err(cannot("create", &dir))?),
    }
}

/// Writes what the host has cached for the mount, so that a snapshot contains it.
fn sync(destination: &BackupDestination) -> Result<()> {
    let root = destination.mountpoint();
    let dir = File::open(root).map_err(cannot("open", root))?;
    Ok(rustix::fs::syncfs(dir).map_err(cannot("sync", root))?)
}
