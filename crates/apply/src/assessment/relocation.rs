//! The directories that a plan moves into separate datasets, and whether they can be moved.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use poolwright_base::directory::Directory;
use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_base::quoted;
use poolwright_plan::RolePlan;
use schemars::JsonSchema;
use serde::Serialize;

use super::places::DatabasePlaces;
use super::{Assessor, admin_of};
use crate::Result;
use crate::error::refused;
use crate::relocation::PLAN_PROPERTY;
use crate::rewrite::FileScan;
use crate::work::{DatasetWork, PlanWork, Relocation};

/// A directory that would move into a separate dataset. Sizes are bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RelocationAssessment {
    /// The directory, which becomes a symbolic link.
    pub directory: PathBuf,
    /// The dataset that would be created.
    pub dataset: String,
    /// Where it would be mounted.
    pub mountpoint: PathBuf,
    /// The properties with which it would be created.
    pub settings: BTreeMap<String, String>,
    /// Number of regular files in the directory.
    pub files: u64,
    /// Sum of their lengths.
    pub bytes: u64,
    /// Their allocated space today.
    pub allocated: u64,
}

/// A directory that moves, before the settings of its dataset are known.
pub(super) struct PlannedRelocation<'a> {
    /// The mount that has the directory.
    pub mount: &'a MountEntry,
    directory: PathBuf,
    mountpoint: PathBuf,
    role: &'a RolePlan,
}

impl<'a> Assessor<'a> {
    /// The move of a role for which the plan recommends a separate dataset, on a directory that is not a mount point. `None` if the
    /// role has no directory that could become a link.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if the directory is not the database's, the new dataset exists but is not mounted, or its
    /// mount point is in use.
    pub(super) fn relocation(
        &'a self,
        mountpoint: &Path,
        roles: &[&'a RolePlan],
        places: &DatabasePlaces,
    ) -> Result<Option<PlannedRelocation<'a>>> {
        let [role] = roles else { return Ok(None) };
        if !self.moves {
            return Ok(None);
        }
        let Some(link) = role.location.link.as_deref().filter(|_| !role.recommended.is_empty()) else {
            return Ok(None);
        };
        let directory = PathBuf::from(link);
        places.check_link(&directory)?;
        let Ok(meta) = fs::symlink_metadata(&directory) else { return Ok(None) };
        if meta.is_symlink() && fs::read_link(&directory).is_ok_and(|target| target == mountpoint) {
            return refused(format!(
                "{} leads to {}, on which no dataset is mounted\nhint: mount it",
                quoted(&directory),
                quoted(&mountpoint)
            ));
        }
        // In a path with links, the link would lead elsewhere.
        if !meta.is_dir() || directory.canonicalize().is_ok_and(|real| real != directory) {
            return Ok(None);
        }
        let inside = self.mounts.iter().any(|mount| mount.point.starts_with(&directory));
        let Some(mount) = mountinfo::containing(&self.mounts, &directory).filter(|_| !inside) else {
            return Ok(None);
        };
        if poolwright_zfs::datasets::of_mount(mount).is_none() {
            return Ok(None);
        }
        check_mountpoint(mountpoint, &directory)?;
        Ok(Some(PlannedRelocation { mount, directory, mountpoint: mountpoint.to_owned(), role }))
    }
}

/// Refuses a mount point that has files, or could not be created.
fn check_mountpoint(mountpoint: &Path, directory: &Path) -> Result<()> {
    if mountpoint.starts_with(directory) {
        return refused(format!("{} is in {}, which moves", quoted(&mountpoint), quoted(&directory)));
    }
    match fs::read_dir(mountpoint).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => refused(format!(
            "{} is not empty\nhint: it is to become the mount point of a new dataset; move it away",
            quoted(&mountpoint)
        )),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => match mountpoint.parent() {
            Some(parent) if parent.is_dir() => Ok(()),
            _ => refused(format!("the directory above {} does not exist", quoted(&mountpoint))),
        },
        Err(cause) => refused(format!("cannot use {} as a mount point: {cause}", quoted(&mountpoint))),
    }
}

impl PlannedRelocation<'_> {
    /// Adds the move to the work on the dataset that has the directory. `plan` is the plan's identifier, `begun` the work of a run that
    /// was interrupted and may have created the new dataset.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if a dataset with the name of the new one exists; the errors of the pool.
    pub fn add_to(&self, work: &mut DatasetWork, plan: &str, begun: Option<&PlanWork>) -> Result<()> {
        let name = self.directory.file_name().unwrap_or_default().to_string_lossy();
        let dataset = format!("{}/{name}", work.dataset);
        let mut known = begun.iter().flat_map(|of| &of.datasets).flat_map(|of| &of.relocations);
        let is_known = known.any(|of| of.dataset == dataset && of.mountpoint == self.mountpoint);
        if !is_known && !admin_of(self.mount)?.properties(&dataset)?.is_empty() {
            return refused(format!(
                "{dataset} exists, but is not mounted on {}\nhint: mount it there, or rename it",
                quoted(&self.mountpoint)
            ));
        }
        let settings = self.settings(work, plan);
        let (directory, mountpoint) = (self.directory.clone(), self.mountpoint.clone());
        work.relocations.push(Relocation { directory, dataset, mountpoint, settings });
        Ok(())
    }

    /// What the plan recommends for the role; today's values of the other properties that the plan changes above, from which the new
    /// dataset would inherit them.
    fn settings(&self, work: &DatasetWork, plan: &str) -> BTreeMap<String, String> {
        let mut settings = self.role.recommended.clone();
        for change in work.changes.iter().filter(|change| change.dataset == work.dataset) {
            settings.entry(change.property.clone()).or_insert_with(|| change.before.value.clone());
        }
        // Without a mount point of its own, a dataset of the kernel would be mounted over the directory when it is created.
        if poolwright_zfs::datasets::is_kernel(self.mount) {
            settings.insert("mountpoint".to_owned(), self.mountpoint.to_string_lossy().into_owned());
            settings.insert(PLAN_PROPERTY.to_owned(), plan.to_owned());
        }
        settings
    }
}

/// Examines the directories of a dataset that move.
pub(super) fn examine(work: &DatasetWork, root: &Directory) -> Result<Vec<RelocationAssessment>> {
    let examine = |of: &Relocation| {
        of.check_replaceable(root)?;
        let scan = FileScan::of(&of.open_directory(root)?, &[])?;
        scan.files.values().try_for_each(crate::rewrite::FileEntry::check_links)?;
        Ok(RelocationAssessment {
            directory: of.directory.clone(),
            dataset: of.dataset.clone(),
            mountpoint: of.mountpoint.clone(),
            settings: of.settings.clone(),
            files: scan.files.len() as u64,
            bytes: scan.bytes(),
            allocated: scan.files.values().map(|file| file.allocated).sum(),
        })
    };
    work.relocations.iter().map(examine).collect()
}
