//! The steps of a run that move directories into separate datasets, and back.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use poolwright_base::directory::Directory;
use poolwright_base::quoted;
use poolwright_base::{cannot, mountinfo};
use poolwright_openzfs::property::parse_size;
use poolwright_zfs::kernel::DatasetChange;

use super::{OpenDataset, Run};
use crate::assessment::open_mount;
use crate::error::refused;
use crate::relocation::{DirectoryState, PLAN_PROPERTY, copy_name};
use crate::rewrite::{EntryAt, FileScan, TreeCopier};
use crate::work::{Direction, Relocation};
use crate::{Error, Result};

impl OpenDataset {
    /// The files of directories that move or have moved.
    pub(super) fn relocated_scans(&self) -> Result<Vec<FileScan>> {
        self.work.relocations.iter().map(|of| of.scan(self.root())).collect()
    }

    /// Writes what the host has cached for the new datasets.
    pub(super) fn sync_relocated(&self) -> Result<()> {
        for of in &self.work.relocations {
            if let Some(dir) = self.open_relocated(of)? {
                rustix::fs::syncfs(&dir).map_err(cannot("sync", &of.mountpoint))?;
            }
        }
        Ok(())
    }

    /// Opens the mount point of the new dataset, if it is mounted where it should be.
    fn open_relocated(&self, of: &Relocation) -> Result<Option<Directory>> {
        let mount = self.admin.mount_of(&of.dataset)?.filter(|mount| mount.point == of.mountpoint);
        mount.map(|mount| open_mount(&mount)).transpose()
    }

    /// Whether the new dataset is mounted where it should be.
    fn is_mounted(&self, of: &Relocation) -> Result<bool> {
        Ok(self.open_relocated(of)?.is_some())
    }

    /// Checks that every file of the new datasets has their block size.
    pub(super) fn check_relocated_blocks(&self) -> Result<()> {
        for of in &self.work.relocations {
            let recordsize = self.admin.properties(&of.dataset)?.remove("recordsize");
            let Some(recordsize) = recordsize.and_then(|of| parse_size(&of.value).ok()) else { continue };
            let scan = FileScan::of(&of.open_mountpoint()?, &[])?;
            scan.check_block_sizes(|file| self.work.is_block_size(file, recordsize))?;
        }
        Ok(())
    }
}

/// The directories that move, each with its dataset.
pub(super) fn relocations(datasets: &[OpenDataset]) -> impl Iterator<Item = (&OpenDataset, &Relocation)> {
    datasets.iter().flat_map(|of| of.work.relocations.iter().map(move |relocation| (of, relocation)))
}

impl Run<'_> {
    /// Creates and mounts the new datasets that do not exist yet.
    pub(super) fn create_datasets(&mut self, datasets: &[OpenDataset]) -> Result<()> {
        relocations(datasets).try_for_each(|(of, relocation)| self.create_dataset(of, relocation))
    }

    fn create_dataset(&mut self, of: &OpenDataset, relocation: &Relocation) -> Result<()> {
        let (dataset, mountpoint) = (&relocation.dataset, &relocation.mountpoint);
        if of.is_mounted(relocation)? {
            return check_own(of, relocation);
        }
        let is_missing = of.admin.properties(dataset)?.is_empty();
        if is_missing && relocation.state(of.root())? != DirectoryState::Directory {
            return refused(format!(
                "{dataset}, which has the files of {}, does not exist any more",
                quoted(&relocation.directory)
            ));
        }
        let (parent, name) = parent_of_mountpoint(relocation)?;
        match parent.create_directory(name) {
            Err(cause) if cause.kind() != ErrorKind::AlreadyExists => {
                return Err(cannot("create", mountpoint)(cause).into());
            }
            _ => {}
        }
        if is_missing {
            self.create_with_properties(of, relocation)?;
        } else {
            check_own(of, relocation)?;
        }
        if !of.is_mounted(relocation)? {
            of.admin.mount(dataset, mountpoint)?;
        }
        match of.is_mounted(relocation)? {
            true => Ok(()),
            false => refused(format!("{dataset} is not mounted on {}\nhint: mount it", quoted(mountpoint))),
        }
    }

    /// Creates a dataset with all its properties, or none. OpenZFS creates a dataset first, and then sets its properties: after a crash
    /// in between, one of the kernel would be mounted over the directory that moves, and would not have the mark of the plan. So it gets its
    /// name at the end.
    fn create_with_properties(&mut self, of: &OpenDataset, relocation: &Relocation) -> Result<()> {
        let (dataset, settings) = (relocation.dataset.clone(), relocation.settings.clone());
        let Some(temporary) = temporary_name(relocation) else {
            return self.change(&*of.admin, &DatasetChange::Create { dataset, settings });
        };
        self.destroy_temporary(of, relocation)?;
        self.change(&*of.admin, &DatasetChange::Create { dataset: temporary.clone(), settings })?;
        self.change(&*of.admin, &DatasetChange::Rename { dataset: temporary, to: dataset })
    }

    /// Destroys what a crash in [`Run::create_with_properties`] left. It is empty.
    fn destroy_temporary(&mut self, of: &OpenDataset, relocation: &Relocation) -> Result<()> {
        match temporary_name(relocation) {
            Some(dataset) if !of.admin.properties(&dataset)?.is_empty() => {
                self.change(&*of.admin, &DatasetChange::DestroyLeaf { dataset })
            }
            _ => Ok(()),
        }
    }

    /// Copies the directories that move to where the direction wants them, and compares the copies.
    pub(super) fn copy_relocated(&mut self, direction: Direction, datasets: &[OpenDataset]) -> Result<()> {
        for of in datasets {
            for (index, relocation) in of.work.relocations.iter().enumerate() {
                let state = relocation.state(of.root())?;
                // It has moved already.
                if (state == DirectoryState::Directory) != (direction == Direction::Apply) {
                    continue;
                }
                let Some(moved) = of.open_relocated(relocation)? else {
                    return refused(format!(
                        "{} is not mounted on {}\nhint: mount it",
                        relocation.dataset,
                        quoted(&relocation.mountpoint)
                    ));
                };
                match direction {
                    Direction::Apply => {
                        self.copy_tree(of, relocation, &relocation.open_directory(of.root())?, &moved)?;
                    }
                    Direction::Undo => {
                        let hidden = of.moving.make()?;
                        let copy = EntryAt::new(&hidden, &copy_name(index)).make_directory()?;
                        self.copy_tree(of, relocation, &moved, &copy)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn copy_tree(
        &mut self,
        of: &OpenDataset,
        relocation: &Relocation,
        from: &Directory,
        to: &Directory,
    ) -> Result<()> {
        let total = 2 * relocation.scan(of.root())?.bytes();
        let observer = &mut self.observer;
        let mut done = 0;
        let mut copier = TreeCopier::new(|bytes| {
            done += bytes;
            observer.progress(done, total);
            if observer.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
        });
        let contents = copier.copy(from, to)?;
        if let Some(special) = contents.skipped.first() {
            return refused(format!(
                "{} is a socket, a fifo or a device node, which cannot be moved",
                quoted(special)
            ));
        }
        copier.compare(from, to)
    }

    /// Swaps the links, or the directories, into place, and removes what they replaced.
    pub(super) fn commit_relocated(&mut self, direction: Direction, of: &OpenDataset) -> Result<()> {
        for (index, relocation) in of.work.relocations.iter().enumerate() {
            relocation.replace(direction, &of.moving, index)?;
            let moved = relocation.scan(of.root())?;
            self.outcome.files += moved.files.len() as u64;
            self.outcome.bytes += moved.bytes();
            self.outcome.relocated.push(relocation.directory.clone());
        }
        of.moving.remove()
    }

    /// Destroys the new datasets, whose directories are back at their old paths. One with snapshots stays.
    pub(super) fn destroy_relocated(&mut self, datasets: &[OpenDataset]) -> Result<()> {
        relocations(datasets).try_for_each(|(of, relocation)| self.destroy_dataset(of, relocation))
    }

    pub(super) fn destroy_dataset(&mut self, of: &OpenDataset, relocation: &Relocation) -> Result<()> {
        let dataset = relocation.dataset.clone();
        self.destroy_temporary(of, relocation)?;
        if of.admin.properties(&dataset)?.is_empty() {
            return self.remove_mountpoint(relocation);
        }
        check_own(of, relocation)?;
        if relocation.state(of.root())? != DirectoryState::Directory {
            return refused(format!(
                "{dataset} has the files of {}, which is not a directory",
                quoted(&relocation.directory)
            ));
        }
        if !of.admin.snapshots(&dataset)?.is_empty() || of.admin.tree(&dataset)?.len() != 1 {
            self.observer.note(&format!("{dataset} stays: it has snapshots or datasets below it"));
            return Ok(());
        }
        if of.admin.mount_of(&dataset)?.is_some() {
            self.change(&*of.admin, &DatasetChange::Unmount { dataset: dataset.clone() })?;
        }
        self.change(&*of.admin, &DatasetChange::DestroyLeaf { dataset })?;
        self.remove_mountpoint(relocation)
    }

    /// Removes the directory on which the new dataset was mounted, even if the dataset could not be created.
    fn remove_mountpoint(&mut self, relocation: &Relocation) -> Result<()> {
        let (parent, name) = parent_of_mountpoint(relocation)?;
        if let Err(cause) = parent.remove_directory(name) {
            self.observer.note(&format!("{} stays: {cause}", quoted(&relocation.mountpoint)));
        }
        Ok(())
    }

    /// The mount points of the new datasets that are mounted.
    pub(super) fn relocated_roots(&self) -> Vec<PathBuf> {
        let Some(state) = self.journal.state() else { return Vec::new() };
        let mounts = mountinfo::read().unwrap_or_default();
        let relocations = state.work.datasets.iter().flat_map(|of| &of.relocations);
        let is_mounted = |of: &&Relocation| {
            mountinfo::on(&mounts, &of.mountpoint)
                .is_some_and(|mount| mount.source.to_string_lossy() == of.dataset.as_str())
        };
        relocations.filter(is_mounted).map(|of| of.mountpoint.clone()).collect()
    }
}

/// The directory with the mount point of the new dataset, and the mount point's name. The owner of the database may own the directory.
fn parent_of_mountpoint(relocation: &Relocation) -> Result<(Directory, &OsStr)> {
    let path = &relocation.mountpoint;
    let parent = path.parent().unwrap_or(Path::new("/"));
    let open = Directory::open_without_links(parent).map_err(cannot("open", parent))?;
    Ok((open, path.file_name().unwrap_or_default()))
}

/// The name that a dataset of the kernel has until it has its properties.
fn temporary_name(relocation: &Relocation) -> Option<String> {
    let plan = relocation.settings.get(PLAN_PROPERTY)?;
    let (parent, name) = relocation.dataset.rsplit_once('/')?;
    Some(format!("{parent}/poolwright-{plan}-{name}"))
}

/// Refuses a dataset of the kernel that has the name of a new one, but was not created for this plan.
fn check_own(of: &OpenDataset, relocation: &Relocation) -> Result<()> {
    let Some(wanted) = relocation.settings.get(PLAN_PROPERTY) else { return Ok(()) };
    match of.admin.user_property(&relocation.dataset, PLAN_PROPERTY)? {
        Some(found) if found == *wanted => Ok(()),
        _ => refused(format!("{} was not created for this plan", relocation.dataset)),
    }
}
