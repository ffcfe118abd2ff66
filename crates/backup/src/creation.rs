//! Creating a dataset of backups.

use std::fs;
use std::path::Path;

use poolwright_base::directory::Directory;
use poolwright_base::{cannot, quoted};
use poolwright_plan::{Plan, RiskyValues, Role, Settings};
use poolwright_zfs::datasets::{is_user_pool, of_pool, pool_of};
use poolwright_zfs::kernel::DatasetChange;

use crate::Result;
use crate::error::refused;
use crate::observer::BackupObserver;

/// The properties of a dataset of backups that no plan describes: large records of well-compressed data, read and written in order.
const DEFAULTS: [(&str, &str); 3] =
    [("recordsize", "1M"), ("compression", "zstd"), ("logbias", "throughput")];
/// The role of a plan that describes backups.
const ROLE: Role = Role::Backup;

/// The properties with which a dataset of backups is created: those of the plan's role `backup`, otherwise the defaults.
///
/// # Errors
/// If the plan cannot be read, or sets what it must not.
pub fn settings(plan: Option<(&Path, RiskyValues<'_>)>) -> Result<Settings> {
    let mut settings: Settings = DEFAULTS.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    if let Some((path, values)) = plan {
        let plan = Plan::read(path, values)?;
        let Some(role) = plan.roles.into_iter().find(|role| role.role == ROLE) else {
            return refused(format!("the plan {} has no role `{ROLE}`", quoted(path)));
        };
        settings.extend(role.recommended);
    }
    Ok(settings)
}

/// Refuses to create a dataset that could not be used then.
pub(crate) fn check(dataset: &str, mountpoint: Option<&Path>) -> Result<()> {
    match mountpoint {
        Some(dir) if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) => {
            refused(format!("{} is not empty", quoted(dir)))
        }
        None if is_user_pool(pool_of(dataset))? => refused(format!(
            "{dataset} does not exist, and no mount point is named\nhint: name the directory on which it is mounted"
        )),
        _ => Ok(()),
    }
}

/// Creates the dataset with these properties, mounted on a directory if one is named.
///
/// # Errors
/// If the pool refuses; a refusal if no directory is named and the dataset is not mounted by its creation: it inherits
/// `mountpoint=none` or `legacy`. The dataset does not exist then.
pub(crate) fn create(
    dataset: &str,
    settings: &Settings,
    mountpoint: Option<&Path>,
    observer: &mut dyn BackupObserver,
) -> Result<()> {
    let admin = of_pool(pool_of(dataset))?;
    admin.change(&DatasetChange::Create { dataset: dataset.to_owned(), settings: settings.clone() })?;
    let listed: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    observer.note(&format!("created {dataset} with {}", listed.join(", ")));
    let mount = |dir: &Path| {
        Directory::create_named(dir, 0o755).map_err(cannot("create", dir))?;
        Ok(admin.mount(dataset, dir)?)
    };
    let mounted = match mountpoint {
        Some(dir) => mount(dir),
        None if admin.mount_of(dataset)?.is_none() => refused(format!(
            "{dataset} does not exist, and would not be mounted: it would inherit no mount point\nhint: name the directory on which it is \
             mounted"
        )),
        None => Ok(()),
    };
    mounted.or_else(|why| {
        // It is empty, and the next run creates it again.
        admin.change(&DatasetChange::DestroyLeaf { dataset: dataset.to_owned() })?;
        Err(why)
    })
}
