//! The steps that swap the mount points of the old and the new datasets.

use std::path::Path;

use poolwright_base::{mountinfo, quoted, unmount_command};
use poolwright_zfs::datasets::is_dataset;

use super::MigrationRun;
use crate::error::refused;
use crate::migration::mounting::PlacedDataset;
use crate::migration::state::{MigrationPhase, MigrationState};
use crate::migration::work::Direction;
use crate::{Result, Stage};

/// Unmounts the snapshots that the kernel has mounted below `.zfs` of a mount: they keep it from being unmounted.
fn unmount_snapshots(mountpoint: &Path) -> Result<()> {
    let mounts = mountinfo::read()?;
    for mount in mountinfo::below(&mounts, &mountpoint.join(".zfs")) {
        // If it is in use, unmounting the dataset fails.
        let _ = unmount_command(&mount.point, false).output();
    }
    Ok(())
}

impl MigrationRun<'_> {
    /// Unmounts all datasets, the inner ones first. If one is in use, mounts the active datasets on their mount points again.
    pub(super) fn unmount_all(&mut self, direction: Direction) -> Result<()> {
        for of in self.state().work.moves.iter().rev() {
            let (from, to) = of.ends(direction);
            unmount_snapshots(&of.mountpoint)?;
            for name in [to, from] {
                if let Err(busy) = PlacedDataset::open(name)?.unmount(self.observer) {
                    self.mount_places(direction)?;
                    return refused(format!(
                        "{busy}\nhint: a program uses it, for example as its working directory; `fuser -vm {}` shows which",
                        quoted(&of.mountpoint)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Refuses datasets below those from which files are copied, and mounts in their directories, that do not move with them: they were made
    /// later, and files of the database could be in them.
    pub(super) fn check_below(&self, direction: Direction) -> Result<()> {
        let work = self.state().work;
        let mounts = mountinfo::read()?;
        let moves = |name: &str| work.moves.iter().any(|of| of.ends(direction).0 == name);
        for of in &work.moves {
            let (from, _) = of.ends(direction);
            let tree = PlacedDataset::open(from)?.admin.tree(from)?;
            let below = tree.into_iter().map(|of| of.name).find(|name| !moves(name));
            // The kernel mounts a snapshot below `.zfs` of its dataset.
            let is_other = |mount: &&mountinfo::MountEntry| {
                let source = mount.source.to_string_lossy();
                !source.contains('@') && !moves(&source)
            };
            let mounted = mountinfo::below(&mounts, &of.mountpoint).find(is_other);
            let mounted = mounted.map(|mount| match is_dataset(mount) {
                true => mount.source.to_string_lossy().into_owned(),
                false => mount.point.display().to_string(),
            });
            if let Some(name) = below.or(mounted) {
                return refused(format!(
                    "{name} is in the database's datasets, but was made after they were moved\nhint: move its files into {}, and remove it",
                    quoted(&of.mountpoint)
                ));
            }
        }
        Ok(())
    }

    /// Keeps the active datasets from being mounted when their pools are imported, the outer ones first: after a crash of
    /// the host, no database starts on them.
    pub(super) fn hold_back(&mut self, direction: Direction) -> Result<()> {
        let work = self.state().work;
        work.moves
            .iter()
            .try_for_each(|of| PlacedDataset::open(of.ends(direction).0)?.hold_back(self.observer))
    }

    /// Continues an interrupted swap of the mount points. If a dataset was mounted since, it may have been written to: then everything is
    /// copied again, unless the other datasets are already in use.
    pub(super) fn continue_switch(&mut self, direction: Direction) -> Result<()> {
        let work = self.state().work;
        let (mut in_place, mut used) = (Vec::new(), Vec::new());
        for of in &work.moves {
            let (from, to) = of.ends(direction);
            let (from, to) = (PlacedDataset::open(from)?, PlacedDataset::open(to)?);
            if from.is_mounted()? {
                in_place.push(from.name.to_owned());
            }
            if to.is_on(&of.mountpoint)? {
                used.push(of.mountpoint.clone());
            }
        }
        // Nothing may be mounted into or over the directories of a database that runs, on an empty directory for example.
        if used.len() < work.moves.len() {
            self.ensure_stopped()?;
        }
        match (in_place.first(), !used.is_empty()) {
            (None, _) => self.switch(direction),
            (Some(_), false) => {
                self.enter(|state| MigrationState { phase: MigrationPhase::Copying, ..state })
            }
            (Some(name), true) => refused(format!(
                "{name} was mounted while its place was exchanged, and may have been written to\nhint: compare it with what is mounted in \
                 its place, and unmount it"
            )),
        }
    }

    /// Swaps the mount points: unmounts the active datasets, and mounts the others in their place. Every
    /// step can be repeated. If the host crashes, the dataset with the database's directory is not mounted before all others are in their
    /// places.
    pub(super) fn switch(&mut self, direction: Direction) -> Result<()> {
        self.observer.stage(Stage::Switch);
        let work = self.state().work;
        for of in work.moves.iter().rev() {
            PlacedDataset::open(of.ends(direction).0)?.park(&of.staging, self.observer)?;
        }
        match direction {
            Direction::Forth => self.settle_targets()?,
            Direction::Back => self.resettle_sources()?,
        }
        self.enter(|state| MigrationState { phase: MigrationPhase::Switched, ..state })
    }
}
