//! Determines what applying a plan would do, and whether it is possible. Changes nothing.

mod mount;
mod pins;
mod places;
mod relocation;
mod space;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_base::quoted;
use poolwright_base::writers::find_writer_of_mounts;
use poolwright_dbms::service;
use poolwright_plan::{MetricName, Plan, RolePlan};
use poolwright_zfs::kernel::command::property::{PropertySource, SourcedValue};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::error::refused;
use crate::rewrite::FileScan;
use crate::work::{DatasetWork, Direction, PlanWork, PropertyChange, is_same};
use poolwright_zfs::datasets::DatasetAdmin;

pub use mount::{admin_of, check_healthy, check_mounted_once, open_mount};
use pins::{drop_pins, is_above, pinned, properties_below};
use places::DatabasePlaces;
use relocation::PlannedRelocation;
pub use relocation::RelocationAssessment;
pub use space::RESERVE;
use space::ShortQuota;

/// The assessment of applying a plan.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Assessment {
    /// Identifies the plan in the journal and in the names of snapshots.
    pub plan: String,
    /// The database's directory.
    pub directory: PathBuf,
    /// The datasets that change.
    pub datasets: Vec<DatasetAssessment>,
    /// The process that has files open for writing; the database has to be stopped.
    pub running: Option<RunningDatabase>,
    /// Recommendations that applying does not carry out, each with what to do.
    pub left: Vec<String>,
    /// The work as the journal stores it.
    #[serde(skip)]
    pub work: PlanWork,
}

/// A process of the database.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunningDatabase {
    /// Its process ID.
    pub pid: i32,
    /// The name of its program.
    pub name: String,
    /// A file that it has open for writing.
    pub path: PathBuf,
    /// Its systemd service.
    pub unit: Option<String>,
}

impl RunningDatabase {
    /// Finds a process that has a file of these mount points open for writing.
    pub fn find(roots: &[PathBuf]) -> Option<RunningDatabase> {
        find_writer_of_mounts(roots).map(|writer| RunningDatabase {
            unit: service::unit_of(writer.pid),
            pid: writer.pid,
            name: writer.name,
            path: writer.path,
        })
    }
}

/// The assessment for one dataset. Sizes are bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DatasetAssessment {
    /// The dataset.
    pub dataset: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The properties that change.
    pub properties: Vec<PropertyAssessment>,
    /// The directories that move into separate datasets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relocations: Vec<RelocationAssessment>,
    /// Number of regular files in the dataset, without those that move.
    pub files: u64,
    /// Number of files to rewrite.
    pub rewritten_files: u64,
    /// Sum of their lengths.
    pub rewritten_bytes: u64,
    /// Their allocated space today.
    pub rewritten_allocated: u64,
    /// The space that the copies are expected to take while the old blocks are kept, according to the plan's measurements.
    pub needed: u64,
    /// The space that they take at most.
    pub needed_at_most: u64,
    /// The space that the dataset can still use.
    pub available: u64,
    /// Number of snapshots, which keep the old blocks.
    pub snapshots: u64,
    /// The snapshot that will keep the files as they are, until the plan is undone or its snapshots are discarded.
    pub snapshot: Option<String>,
    /// The quota of a user or a group that is too small for the rewritten files.
    #[serde(skip)]
    short_quota: Option<ShortQuota>,
}

/// A property that changes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PropertyAssessment {
    /// The dataset: that of the files, or one below it, which keeps its value.
    pub dataset: String,
    /// The property.
    pub property: String,
    /// Its value now.
    pub now: String,
    /// The source of this value.
    pub source: String,
    /// Its value afterwards.
    pub then: String,
}

/// The datasets of a plan, and access to them.
pub struct Assessor<'a> {
    plan: &'a Plan,
    /// The work of a run that was interrupted.
    begun: Option<PlanWork>,
    /// Whether directories move into separate datasets.
    moves: bool,
    mounts: Vec<MountEntry>,
}

/// The work on a mounted dataset, and the roles whose dataset it is.
struct MountWork<'a> {
    work: DatasetWork,
    mount: &'a MountEntry,
    roles: Vec<&'a RolePlan>,
}

impl<'a> Assessor<'a> {
    /// Reads the table of mounts. `begun` is the work of a run of the plan that was interrupted.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn new(plan: &'a Plan, begun: Option<PlanWork>) -> Result<Assessor<'a>> {
        Ok(Assessor { plan, begun, moves: true, mounts: mountinfo::read()? })
    }

    /// Leaves all directories in their present datasets.
    #[must_use]
    pub fn without_moves(self) -> Assessor<'a> {
        Assessor { moves: false, ..self }
    }

    /// Examines the plan's directory and datasets.
    ///
    /// # Errors
    /// [`Error::Refused`] if the plan describes another database or other files, or cannot be applied to these datasets; the
    /// errors of the host and of the pools.
    pub fn assess(&self, id: &str, path: &Path) -> Result<Assessment> {
        if self.plan.is_of_volume() {
            return refused(
                "the plan is of a volume, whose block size cannot be changed\nhint: make a new volume and copy the data \
                 (docs/volumes.md, \"A new volume\")",
            );
        }
        let directory = self.directory()?;
        if let Some(why) = self.plan.other_database(&directory) {
            return refused(format!("{why}\nhint: make a plan for this database"));
        }
        let mut left: Vec<String> = self
            .plan
            .database
            .iter()
            .map(|of| format!("set {}={} in the database", of.setting, of.value))
            .collect();
        let mut work =
            PlanWork { plan: id.to_owned(), path: path.to_owned(), directory, datasets: Vec::new() };
        let (mut found, mut moves) = (Vec::new(), Vec::new());
        let places = DatabasePlaces::of(&work.directory, &self.mounts);
        for (mountpoint, roles) in self.plan.roles_by_mountpoint() {
            if let Some(mount) = self.mount_on(mountpoint) {
                if roles.iter().any(|role| !role.recommended.is_empty()) {
                    places.check_mount(mount)?;
                }
                found.push(MountWork { work: self.work(mount, &roles)?, mount, roles });
            } else if let Some(planned) = self.relocation(mountpoint, &roles, &places)? {
                moves.push(planned);
            } else {
                left.push(self.unmounted(mountpoint, &roles)?);
            }
        }
        self.add_relocations(&mut found, &moves, id)?;
        found.retain(|of| !of.work.changes.is_empty() || !of.work.relocations.is_empty());
        found.iter().try_for_each(|of| check_mounted_once(&self.mounts, of.mount))?;
        let examined =
            found.iter().map(|of| examine(&*admin_of(of.mount)?, &work, &of.roles, (&of.work, of.mount)));
        let datasets = examined.collect::<Result<Vec<_>>>()?;
        work.datasets = found.into_iter().map(|of| of.work).collect();
        drop_pins(&mut work.datasets);
        let running = RunningDatabase::find(&work.roots());
        Ok(Assessment {
            plan: id.to_owned(),
            directory: work.directory.clone(),
            datasets,
            running,
            left,
            work,
        })
    }

    /// Adds the directories that move to the work on the datasets that have them.
    fn add_relocations<'s>(
        &'s self,
        found: &mut Vec<MountWork<'s>>,
        moves: &[PlannedRelocation<'s>],
        id: &str,
    ) -> Result<()> {
        for planned in moves {
            let mount = planned.mount;
            let at = match found.iter().position(|of| of.mount.point == mount.point) {
                Some(at) => at,
                None => {
                    found.push(MountWork { work: self.work(mount, &[])?, mount, roles: Vec::new() });
                    found.len() - 1
                }
            };
            planned.add_to(&mut found[at].work, id, self.begun.as_ref())?;
        }
        Ok(())
    }

    /// The plan's directory, which must be where it was.
    fn directory(&self) -> Result<PathBuf> {
        let recorded = Path::new(&self.plan.subject.directory);
        let found = match recorded.canonicalize() {
            Ok(found) if found.is_dir() => found,
            Ok(_) => return refused(format!("{} is not a directory", quoted(&recorded))),
            Err(why) => {
                return refused(format!(
                    "the plan's directory {} cannot be opened: {why}",
                    quoted(&recorded)
                ));
            }
        };
        if found != recorded {
            return refused(format!(
                "the plan was made for {}, which is a link to {} now\nhint: make a plan for the present directory",
                quoted(&recorded),
                quoted(&found)
            ));
        }
        Ok(found)
    }

    fn mount_on(&self, path: &Path) -> Option<&MountEntry> {
        mountinfo::on(&self.mounts, &path.canonicalize().ok()?)
    }

    /// The message about roles whose directory is not a mount point: a refusal if they are the reason for the plan.
    fn unmounted(&self, mountpoint: &Path, roles: &[&RolePlan]) -> Result<String> {
        let names: Vec<&str> = roles.iter().map(|role| role.role.name()).collect();
        let names = names.join(" and ");
        let settings = |role: &&RolePlan| {
            let all: Vec<String> = role.recommended.iter().map(|(k, v)| format!("-o {k}={v} ")).collect();
            all.concat()
        };
        let recommended = roles.first().map(settings).unwrap_or_default();
        let is_separate = roles.iter().all(|role| role.location.separable && role.location.how.is_some());
        if is_separate {
            let how = roles.first().and_then(|role| role.location.how.as_deref()).unwrap_or_default();
            return Ok(format!(
                "{names} stays in its present dataset: for a separate dataset, create one with {recommended}-o mountpoint={}, and \
                 set {how}",
                quoted(&mountpoint)
            ));
        }
        let containing = mountinfo::containing(&self.mounts, mountpoint).map(MountEntry::describe);
        refused(format!(
            "{} is not the mount point of a dataset but a directory of {}\nhint: create a dataset with {recommended}, move the files \
             of {names} there while the database is stopped, and mount it on {}",
            quoted(&mountpoint),
            containing.unwrap_or_else(|| "an unknown file system".to_owned()),
            quoted(&mountpoint)
        ))
    }

    /// The properties to change for the roles of one mount.
    fn work(&self, mount: &MountEntry, roles: &[&RolePlan]) -> Result<DatasetWork> {
        let admin = admin_of(mount)?;
        let dataset = mount.source.to_string_lossy().into_owned();
        if mount.root != Path::new("/") || dataset.contains('@') {
            return refused(format!("{} is not a dataset but a part of {dataset}", quoted(&mount.point)));
        }
        // A dataset that the plan has created is below the one that had the directory.
        let is_planned = |role: &&RolePlan, planned: &str| {
            planned == dataset || (role.location.link.is_some() && is_above(planned, &dataset))
        };
        if let Some(role) = roles.first()
            && let Some(planned) = role.location.dataset.as_deref()
            && !is_planned(role, planned)
        {
            return refused(format!(
                "{} is on {dataset} now, but was on {planned} when the plan was made\nhint: make a new plan",
                quoted(&mount.point)
            ));
        }
        let present = admin.properties(&dataset)?;
        let mut below = None;
        let mut changes = Vec::new();
        let recommended = roles.first().map(|role| &role.recommended);
        for (property, value) in recommended.into_iter().flatten() {
            let Some(before) = present.get(property) else {
                return refused(format!("{dataset} has no property {property}"));
            };
            if is_same(property, &before.value, value) {
                continue;
            }
            check_source(&dataset, property, before)?;
            same_as_planned(roles, &dataset, property, before)?;
            let below = match &below {
                Some(below) => below,
                None => below.insert(properties_below(&*admin, &dataset)?),
            };
            changes.extend(pinned(below, &dataset, property));
            changes.push(PropertyChange {
                dataset: dataset.clone(),
                property: property.clone(),
                before: before.clone(),
                value: value.clone(),
            });
        }
        let has_exact_block_sizes = poolwright_zfs::datasets::has_exact_block_sizes(mount);
        let mountpoint = mount.point.clone();
        let work =
            DatasetWork { dataset, mountpoint, changes, relocations: Vec::new(), has_exact_block_sizes };
        if work.rewrites() {
            check_projects(&*admin, &work.dataset)?;
        }
        Ok(work)
    }
}

/// Refuses a dataset whose files have project IDs: copies would not have them.
///
/// # Errors
/// [`Error::Refused`]; the errors of the pool.
pub fn check_projects(admin: &dyn DatasetAdmin, dataset: &str) -> Result<()> {
    match admin.project_ids(dataset)?.first() {
        None => Ok(()),
        Some(id) => refused(format!(
            "files of {dataset} have project IDs ({id}), which their copies would not have\nhint: remove them (chattr -p 0), and set them again \
             afterwards"
        )),
    }
}

/// Refuses a value whose source cannot be restored.
fn check_source(dataset: &str, property: &str, before: &SourcedValue) -> Result<()> {
    match before.source {
        PropertySource::Temporary => refused(format!(
            "{property} of {dataset} is set by a mount option, which overrides the property\nhint: mount it without the option"
        )),
        PropertySource::None => refused(format!("{property} of {dataset} cannot be changed")),
        _ => Ok(()),
    }
}

/// Refuses a property that has changed since the plan was made: the plan compared with the value at that time.
fn same_as_planned(roles: &[&RolePlan], dataset: &str, property: &str, before: &SourcedValue) -> Result<()> {
    let planned = roles.first().and_then(|role| role.current.get(property));
    match planned {
        Some(planned) if !is_same(property, &before.value, planned) => refused(format!(
            "{property} of {dataset} is {} now, but was {planned} when the plan was made\nhint: make a new plan",
            before.value
        )),
        _ => Ok(()),
    }
}

/// Examines the files and the space of a dataset.
fn examine(
    admin: &dyn DatasetAdmin,
    plan: &PlanWork,
    roles: &[&RolePlan],
    (work, mount): (&DatasetWork, &MountEntry),
) -> Result<DatasetAssessment> {
    let root = open_mount(mount)?;
    let scan = FileScan::of(&root, &plan.excepted(work))?;
    let relocations = relocation::examine(work, &root)?;
    // The old blocks stay in the snapshot.
    let moved: u64 = relocations.iter().map(|of| of.allocated).sum();
    let moved_bytes: u64 = relocations.iter().map(|of| of.bytes.max(of.allocated)).sum();
    let tree = admin.tree(&work.dataset)?;
    let summary = tree.first();
    let files = || scan.files.values().filter(|file| work.needs_rewrite(Direction::Apply, file, false));
    if work.rewrites() {
        FileScan::check_directories(&root, files())?;
    }
    let (mut count, mut bytes, mut allocated) = (0, 0, 0);
    let mut by_owner: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for file in files() {
        file.check_links()?;
        *by_owner.entry(file.owner).or_default() += file.allocated;
        count += 1;
        bytes += file.identity.length;
        allocated += file.allocated;
    }
    let change = roles
        .iter()
        .filter_map(|role| role.gain.get(&MetricName::AllocatedBytes))
        .map(|gain| gain.change)
        .fold(0.0, f64::max);
    let quotas = if count > 0 { admin.owner_quotas(&work.dataset)? } else { Vec::new() };
    let logical = summary.map_or(bytes, |of| of.logical_referenced.max(allocated)).min(bytes.max(allocated));
    let property = |of: &PropertyChange| PropertyAssessment {
        dataset: of.dataset.clone(),
        property: of.property.clone(),
        now: of.before.value.clone(),
        source: of.before.source.to_string(),
        then: of.value.clone(),
    };
    let snapshots = admin.snapshots(&work.dataset)?.len() as u64;
    Ok(DatasetAssessment {
        dataset: work.dataset.clone(),
        mountpoint: work.mountpoint.clone(),
        properties: work.changes.iter().map(property).collect(),
        relocations,
        files: scan.files.len() as u64,
        rewritten_files: count,
        rewritten_bytes: bytes,
        rewritten_allocated: allocated,
        needed: (allocated as f64 * (1.0 + change)) as u64 + moved,
        needed_at_most: logical + moved_bytes,
        available: summary.map_or(0, |of| of.available),
        snapshots,
        short_quota: quotas.into_iter().find_map(|quota| ShortQuota::of(quota, &by_owner, change)),
        snapshot: (count > 0 || !work.relocations.is_empty()).then(|| plan.snapshot_of(&work.dataset)),
    })
}

impl Assessment {
    /// Whether anything would change.
    pub fn is_empty(&self) -> bool {
        self.datasets.is_empty()
    }
}
