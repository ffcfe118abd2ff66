//! Whether a plan is applied now.

use std::path::{Path, PathBuf};

use poolwright_apply::work::is_same;
use poolwright_base::file_sample::FileSample;
use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_openzfs::property::parse_size;
use poolwright_plan::spelled_setting;
use poolwright_plan::{Plan, RolePlan};
use poolwright_trace::layout;

use crate::Result;

/// Whether a plan is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanState {
    /// No recommended property has its value.
    NotApplied,
    /// Recommended properties have their values.
    Applied {
        /// Whether all of them have.
        is_complete: bool,
        /// What is not as the plan recommends, each a sentence.
        differences: Vec<String>,
    },
}

/// The mounts that hold the files of a plan.
#[derive(Clone, Debug)]
pub struct PlanMounts(Vec<MountEntry>);

impl PlanMounts {
    /// Reads the table of mounts.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read() -> Result<PlanMounts> {
        Ok(PlanMounts(mountinfo::read()?))
    }

    /// The mount that holds a path, if it is of a dataset.
    pub fn of_dataset(&self, path: &Path) -> Option<&MountEntry> {
        // A file that no longer exists was on the file system of its directory.
        let found = path.ancestors().find_map(|path| path.canonicalize().ok())?;
        mountinfo::containing(&self.0, &found).filter(|mount| poolwright_zfs::datasets::is_dataset(mount))
    }

    /// The regular files of the database: their lengths and their space. `None` without files.
    pub fn files(&self, directory: &Path) -> Option<FileSample> {
        let links = layout::linked_directories_below(directory);
        let linked: Vec<PathBuf> = links.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let roots: Vec<String> = std::iter::once(directory)
            .chain(self.points_below(directory))
            .chain(linked.iter().map(PathBuf::as_path))
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        FileSample::of(&roots, None, u64::MAX)
    }

    /// Compares the datasets with the plan.
    ///
    /// # Errors
    /// If a dataset cannot be asked.
    pub fn state(&self, plan: &Plan) -> Result<PlanState> {
        let (mut wanted, mut in_force, mut differences) = (0, 0, Vec::new());
        let mut groups = Vec::from_iter(plan.roles_by_mountpoint());
        groups.retain(|(_, roles)| !roles[0].recommended.is_empty());
        // The differences are in the order of the texts.
        groups.sort_by_key(|(point, _)| point.as_os_str());
        for (point, roles) in groups {
            let Some(mount) = self.dataset_on(point) else {
                // `apply` leaves such files in their present dataset.
                if roles.iter().any(|role| !role.location.separable || role.location.how.is_none()) {
                    wanted += roles[0].recommended.len();
                    differences.push(format!("{} is not the mount point of a dataset", point.display()));
                }
                continue;
            };
            let dataset = mount.source.to_string_lossy().into_owned();
            let Some(admin) = poolwright_zfs::datasets::of_mount(mount) else { continue };
            let present = admin.properties(&dataset)?;
            for (property, value) in &roles[0].recommended {
                wanted += 1;
                let found = present.get(property).map_or("unknown", |of| &of.value);
                if is_same(property, found, value) {
                    in_force += 1;
                } else {
                    let found = spelled_setting(property, found);
                    differences.push(format!("{property} of {dataset} is {found}, not {value}"));
                }
            }
            if poolwright_zfs::datasets::has_exact_block_sizes(mount) {
                differences.extend(roles.iter().filter_map(|role| old_blocks(role)));
            }
        }
        Ok(match in_force {
            0 => PlanState::NotApplied,
            _ => PlanState::Applied { is_complete: in_force == wanted, differences },
        })
    }

    /// The mount on a directory, if it is of a dataset.
    fn dataset_on(&self, path: &Path) -> Option<&MountEntry> {
        mountinfo::on(&self.0, &path.canonicalize().ok()?)
            .filter(|mount| poolwright_zfs::datasets::is_dataset(mount))
    }

    /// Whether other file systems are mounted below a directory.
    pub fn has_mounts_below(&self, directory: &Path) -> bool {
        self.points_below(directory).next().is_some()
    }

    /// The mount points below a directory, without the directory itself.
    fn points_below<'a>(&'a self, directory: &'a Path) -> impl Iterator<Item = &'a Path> {
        let all = mountinfo::below(&self.0, directory).map(|mount| &*mount.point);
        all.filter(move |point| *point != directory)
    }
}

/// A sentence on files of the role that have the block size of another record size.
fn old_blocks(role: &RolePlan) -> Option<String> {
    let wanted = role.recommended.get("recordsize").and_then(|value| parse_size(value).ok())?;
    let sample = FileSample::of(&role.paths, Some(wanted), u64::MAX)?;
    (sample.other_block_size > 0).then(|| {
        format!(
            "{} of {} large files of the role {} still have another block size: `poolwright apply` rewrites them",
            sample.other_block_size, sample.large, role.role
        )
    })
}
