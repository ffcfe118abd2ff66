//! Determines what moving a database to another pool would do, and whether it is possible. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_base::quoted;
use poolwright_base::units::format_size;
use poolwright_dbms::database::{DatabaseKind, LocatedDatabase};
use poolwright_dbms::directories::DatabaseDirs;
use poolwright_openzfs::property::{self, Settings, canonical};
use poolwright_plan::{self as plan, Plan};
use poolwright_trace::layout;
use poolwright_zfs::datasets::{DatasetAdmin, is_user_pool, of_pool, pool_of};
use poolwright_zfs::kernel::ZfsCommands;
use poolwright_zfs::kernel::command::property::{PropertySource, SourcedValue};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::assessment::{RESERVE, RunningDatabase, check_healthy, check_mounted_once, check_projects};
use crate::error::refused;
use crate::migration::mounting::{MOUNTPOINT, PlacedDataset};
use crate::migration::work::{DatasetMove, MigrationWork};

/// Properties of a kernel's dataset that are fixed at creation, and others that trials do not vary: the new dataset gets today's values.
const KEPT: [&str; 13] = [
    "casesensitivity",
    "normalization",
    "utf8only",
    "atime",
    "relatime",
    "xattr",
    "acltype",
    "dnodesize",
    "exec",
    "setuid",
    "devices",
    "special_small_blocks",
    "dedup",
];

/// The assessment of moving a database. Sizes are bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MigrationAssessment {
    /// Identifies the plan in the journal and in the names of snapshots.
    pub plan: String,
    /// The database's directory.
    pub directory: PathBuf,
    /// The dataset below which the new ones would be.
    pub parent: String,
    /// The datasets.
    pub datasets: Vec<MoveAssessment>,
    /// The space that the files take today.
    pub referenced: u64,
    /// Their space before compression: they need at most a little more than this.
    pub logical: u64,
    /// The space that the new pool has.
    pub available: u64,
    /// The process that has files open for writing; the database has to be stopped.
    pub running: Option<RunningDatabase>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// The work as the state file stores it.
    #[serde(skip)]
    pub work: MigrationWork,
}

/// A dataset that would move.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MoveAssessment {
    /// The present dataset.
    pub source: String,
    /// The new one.
    pub target: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The properties with which the new one is created.
    pub settings: Settings,
    /// The properties in `settings` whose values differ on the present dataset, with the present values.
    pub differing: Settings,
    /// The space that it refers to, in bytes.
    pub referenced: u64,
    /// The snapshots of the present dataset, which do not move.
    pub snapshots: u64,
}

/// Examines a database and a pool.
pub struct MigrationAssessor<'a> {
    plan: &'a Plan,
    id: &'a str,
    parent: &'a str,
    staging: PathBuf,
}

impl<'a> MigrationAssessor<'a> {
    /// For the plan with this identifier, and a dataset of another pool below which the new datasets would be. `journals` is the directory
    /// of the journals.
    pub fn new(plan: &'a Plan, id: &'a str, parent: &'a str, journals: &Path) -> MigrationAssessor<'a> {
        // Below it, only this user can create anything.
        MigrationAssessor { plan, id, parent, staging: journals.join(id).join("mnt") }
    }

    /// Examines the datasets.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if the plan describes another database, or its datasets cannot be moved there; the errors
    /// of the host and of the pools.
    pub fn assess(&self, path: &Path) -> Result<MigrationAssessment> {
        let directory = self.directory()?;
        let mounts = mounts_of(&directory)?;
        let target = of_pool(pool_of(self.parent))?;
        self.check_pools(&mounts, &*target)?;
        let above = target.placed_properties(self.parent)?;
        if above.is_empty() {
            let todo = format!("hint: `zfs create {}`, or name an existing dataset or pool", self.parent);
            return refused(format!("the dataset {} does not exist\n{todo}", self.parent));
        }
        let (mut moves, mut datasets) = (Vec::new(), Vec::new());
        let (mut referenced, mut logical) = (0, 0);
        for (at, (mount, name)) in mounts.iter().zip(self.targets(&mounts)?).enumerate() {
            let source = mount.source.to_string_lossy().into_owned();
            let placed = PlacedDataset::open(&source)?;
            check_mount(&placed, mount)?;
            check_below(&placed, &mounts)?;
            check_projects(&*placed.admin, &source)?;
            if !target.properties(&name)?.is_empty() {
                return refused(format!(
                    "{name} exists\nhint: rename or destroy it, or name another dataset"
                ));
            }
            let settings = self.settings(&placed, &mount.point, &above)?;
            let summary = placed.admin.tree(&source)?.into_iter().find(|of| of.name == source);
            let (used, before) = summary.map_or((0, 0), |of| (of.referenced, of.logical_referenced));
            referenced += used;
            logical += before;
            datasets.push(MoveAssessment {
                source: source.clone(),
                target: name.clone(),
                mountpoint: mount.point.clone(),
                differing: differing(&placed, &settings)?,
                settings: settings.clone(),
                referenced: used,
                snapshots: placed.admin.snapshots(&source)?.len() as u64,
            });
            moves.push(DatasetMove {
                source_guid: placed.guid()?,
                target: name,
                mountpoint: mount.point.clone(),
                staging: self.staging.join(at.to_string()),
                settings,
                mounting: placed.mounting()?,
                source,
            });
        }
        let available = target.tree(self.parent)?.first().map_or(0, |of| of.available);
        let work = MigrationWork {
            plan: self.id.to_owned(),
            path: path.to_owned(),
            directory: directory.clone(),
            parent: self.parent.to_owned(),
            engine: PlacedDataset::open(self.parent)?.engine,
            staging: self.staging.clone(),
            moves,
        };
        let running = RunningDatabase::find(&work.roots());
        Ok(MigrationAssessment {
            plan: self.id.to_owned(),
            directory,
            parent: self.parent.to_owned(),
            notes: notes(&datasets, pool_of(self.parent), &self.plan.pool),
            datasets,
            referenced,
            logical,
            available,
            running,
            work,
        })
    }

    /// The plan's directory, which must have the database of the plan.
    fn directory(&self) -> Result<PathBuf> {
        let recorded = Path::new(&self.plan.subject.directory);
        let found = match recorded.canonicalize() {
            Ok(found) if found.is_dir() && found == recorded => found,
            _ => {
                let path = quoted(&recorded);
                return refused(format!(
                    "the plan's directory {path} is not a directory any more\nhint: make a new plan"
                ));
            }
        };
        match self.plan.other_database(&found) {
            Some(why) => refused(format!("{why}\nhint: make a plan for this database")),
            None => Ok(found),
        }
    }

    /// Refuses the pool that the database is on, and pools that are not healthy.
    fn check_pools(&self, mounts: &[MountEntry], target: &dyn DatasetAdmin) -> Result<()> {
        let pool = pool_of(self.parent);
        for mount in mounts {
            let source = mount.source.to_string_lossy();
            if pool_of(&source) == pool {
                return refused(format!(
                    "{source} is in the pool {pool} already\nhint: name a dataset of another pool"
                ));
            }
            match (is_user_pool(pool_of(&source))?, is_user_pool(pool)?) {
                (true, false) => {
                    return refused(format!(
                        "{source} is in a pool of the user-space engine, and no pool named {pool} is mounted by it\nhint: mount the \
                         pool first"
                    ));
                }
                (false, true) => {
                    return refused(format!(
                        "{source} is in a pool of the kernel's OpenZFS, and {pool} is one of the user-space engine"
                    ));
                }
                _ => {}
            }
            check_healthy(&*PlacedDataset::open(&source)?.admin, &source)?;
            check_root(pool_of(&source))?;
            check_altroot(pool_of(&source))?;
        }
        check_root(pool)?;
        check_altroot(pool)?;
        check_healthy(target, self.parent)
    }

    /// The names of the new datasets: those of the present ones without what is above the first one.
    fn targets(&self, mounts: &[MountEntry]) -> Result<Vec<String>> {
        let names: Vec<_> = mounts.iter().map(|mount| mount.source.to_string_lossy().into_owned()).collect();
        let first = names[0].clone();
        let short = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
        let target = |name: &String| match name.strip_prefix(&format!("{first}/")) {
            Some(below) => format!("{}/{}/{below}", self.parent, short(&first)),
            None => format!("{}/{}", self.parent, short(name)),
        };
        let targets: Vec<String> = names.iter().map(target).collect();
        match targets.iter().collect::<BTreeSet<_>>().len() == targets.len() {
            true => Ok(targets),
            false => refused(format!("two of the datasets would have the same name below {}", self.parent)),
        }
    }

    /// The properties of a new dataset: those that the plan recommends for its role, and today's values of the others, whatever it would
    /// inherit.
    fn settings(
        &self,
        source: &PlacedDataset<'_>,
        mountpoint: &Path,
        above: &BTreeMap<String, SourcedValue>,
    ) -> Result<Settings> {
        let present = source.admin.placed_properties(source.name)?;
        check_encryption(source.name, &present, self.parent, above)?;
        let known = property::PROPERTIES.iter().map(|of| of.name).chain(KEPT);
        let known = known.filter(|name| above.contains_key(*name));
        let mut settings: Settings =
            known.filter_map(|name| Some((name.to_owned(), present.get(name)?.value.clone()))).collect();
        for limit in property::LIMITS.iter().filter_map(|of| Some((of.name, present.get(of.name)?))) {
            if let (name, SourcedValue { value, source: PropertySource::Local }) = limit
                && !["0", "none"].contains(&value.as_str())
            {
                settings.insert(name.to_owned(), value.clone());
            }
        }
        let roles = self.plan.roles.iter().filter(|role| Path::new(&role.location.mountpoint) == mountpoint);
        for (name, value) in roles.flat_map(|role| &role.recommended) {
            settings.insert(name.clone(), value.clone());
        }
        Ok(settings)
    }
}

impl MigrationAssessment {
    /// Refuses a pool that has less space than the files take today.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused).
    pub fn check_space(&self) -> Result<()> {
        if self.available >= self.referenced + RESERVE {
            return Ok(());
        }
        refused(format!(
            "{} has {} available, but the files take {} today\nhint: free space, or name another pool",
            self.parent,
            format_size(self.available),
            format_size(self.referenced)
        ))
    }
}

/// The present values of the properties that are other ones in these settings; `-` where it is not known.
fn differing(source: &PlacedDataset<'_>, settings: &Settings) -> Result<Settings> {
    let present = source.admin.placed_properties(source.name)?;
    let other = |(name, value): (&String, &String)| {
        let now = present.get(name).map_or("-", |of| of.value.as_str());
        (canonical(name, now) != canonical(name, value)).then(|| (name.clone(), now.to_owned()))
    };
    Ok(settings.iter().filter_map(other).collect())
}

/// The mounts of the datasets that the database is on, an outer one before those in it.
fn mounts_of(directory: &Path) -> Result<Vec<MountEntry>> {
    // Its links are in its own directory, which may be below the plan's.
    let root = layout::locate(directory).map_or_else(|| directory.to_owned(), |found| found.root);
    let database = LocatedDatabase { kind: DatabaseKind::None, root };
    let sources = DatabaseDirs::find(&[directory.to_owned()], &database)?;
    sources.check_mounts()?;
    let mut mounts: BTreeMap<PathBuf, MountEntry> = BTreeMap::new();
    for source in sources.all {
        mounts.insert(source.mount.point.clone(), source.mount);
    }
    Ok(mounts.into_values().collect())
}

/// Refuses a mount that could not be exchanged for that of another dataset.
fn check_mount(source: &PlacedDataset<'_>, mount: &MountEntry) -> Result<()> {
    let (name, point) = (source.name, quoted(&mount.point));
    if mount.root != Path::new("/") || name.contains('@') || !name.contains('/') {
        return refused(format!(
            "{point} is on {name}, which is not a dataset below the root dataset of its pool"
        ));
    }
    check_mounted_once(&mountinfo::read()?, mount)?;
    match source.admin.placed_properties(name)?.get(MOUNTPOINT) {
        Some(of) if Path::new(&of.value) != mount.point => refused(format!(
            "{name} is mounted on {point}, but its property mountpoint is {}\nhint: zfs set mountpoint={point} {name}",
            of.value
        )),
        _ => Ok(()),
    }
}

/// Refuses a pool that was imported with another root directory: `zfs` shows mount points that are not those of the properties.
fn check_altroot(pool: &str) -> Result<()> {
    if is_user_pool(pool)? {
        return Ok(());
    }
    let altroot = ZfsCommands::default().property_of_pool(pool, "altroot");
    match altroot.map_err(poolwright_zfs::datasets::Error::from)?.as_str() {
        "-" | "" => Ok(()),
        root => refused(format!(
            "the pool {pool} is imported with altroot={root}\nhint: import it without (zpool import -R)"
        )),
    }
}

/// Refuses a pool of the user-space engine that is closed when the dataset is unmounted: the process that has it ends with its last mount.
fn check_root(pool: &str) -> Result<()> {
    let root = PlacedDataset::open(pool)?;
    match is_user_pool(pool)? && root.admin.mount_of(pool)?.is_none() {
        true => refused(format!(
            "the root dataset of {pool} is not mounted\nhint: mount it, so that the pool stays open: poolwright mount {pool} DIR"
        )),
        false => Ok(()),
    }
}

/// Refuses a dataset with others below it that do not move: what they inherit would change.
fn check_below(source: &PlacedDataset<'_>, mounts: &[MountEntry]) -> Result<()> {
    let moves = |name: &str| mounts.iter().any(|mount| mount.source.to_string_lossy() == name);
    let tree = source.admin.tree(source.name)?;
    match tree.iter().find(|of| of.name != source.name && !moves(&of.name)) {
        Some(below) => refused(format!(
            "{} is below {} and is not one of the database's datasets\nhint: rename it to another place first (zfs rename)",
            below.name, source.name
        )),
        None => Ok(()),
    }
}

/// Refuses to write the files of an encrypted dataset into one that is not encrypted.
fn check_encryption(
    source: &str,
    present: &BTreeMap<String, SourcedValue>,
    parent: &str,
    above: &BTreeMap<String, SourcedValue>,
) -> Result<()> {
    let is_encrypted =
        |of: &BTreeMap<String, SourcedValue>| of.get("encryption").is_some_and(|of| of.value != "off");
    match is_encrypted(present) && !is_encrypted(above) {
        true => refused(format!(
            "{source} is encrypted, and {parent} is not\nhint: name an encrypted dataset of the new pool"
        )),
        false => Ok(()),
    }
}

fn notes(datasets: &[MoveAssessment], pool: &str, recommended: &plan::Pool) -> Vec<String> {
    let mut notes = Vec::new();
    let snapshots: u64 = datasets.iter().map(|of| of.snapshots).sum();
    if snapshots > 0 {
        notes.push(format!("{snapshots} snapshots stay with the present datasets; they do not move"));
    }
    notes.push(format!(
        "the plan recommends ashift={} for a pool, because {}: `zpool get ashift {pool}` and `zdb -C {pool}` show what this one has",
        recommended.ashift, recommended.why
    ));
    notes.push(format!(
        "the pool {pool} must be imported before the database starts, after a restart of the host too"
    ));
    notes
}
