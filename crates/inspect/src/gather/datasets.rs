//! The datasets that databases use, and the volumes.

use std::collections::BTreeSet;

use poolwright_zfs::datasets::{DatasetAdmin, UserDatasets};
use poolwright_zfs::kernel::ZfsCommands;
use poolwright_zfs::kernel::command::dataset::DatasetSpace;
use poolwright_zfs::kernel::command::snapshot::SnapshotTotals;

use super::mounts::is_at_or_below;
use super::{Request, Subject, known};
use crate::Result;
use crate::facts::{DatabaseFacts, DatasetFacts, DatasetKind};

/// The space of all datasets of the kernel; `None` if they cannot be listed.
pub fn spaces(commands: &ZfsCommands, unknown: &mut Vec<String>) -> Option<Vec<DatasetSpace>> {
    let mut spaces = Vec::new();
    let listed = commands.for_each_dataset(|space| spaces.push(space));
    known(listed, "the datasets", unknown)?;
    Some(spaces)
}

/// The datasets on which the databases are, those that the user names, and the volumes of the inspected pools.
///
/// # Errors
/// If the user interrupts the inspection.
pub fn read(
    request: &Request,
    commands: &ZfsCommands,
    spaces: &[DatasetSpace],
    databases: &[DatabaseFacts],
    unknown: &mut Vec<String>,
) -> Result<Vec<DatasetFacts>> {
    let used = |is_of_kernel: bool| -> BTreeSet<&str> {
        let groups = databases.iter().flat_map(|of| &of.files);
        groups.filter(|of| of.is_of_kernel == is_of_kernel).map(|of| of.dataset.as_str()).collect()
    };
    let (of_kernel, of_engine) = (used(true), used(false));
    let is_named = |name: &str| {
        let is_it = |subject: &Subject| matches!(subject, Subject::Dataset(top) if is_at_or_below(name, top));
        request.subjects.is_empty() || request.subjects.iter().any(is_it)
    };
    let snapshots = match of_kernel.is_empty() {
        false => known(commands.snapshots(), "the snapshots", unknown).unwrap_or_default(),
        true => Vec::new(),
    };
    let mut datasets = Vec::new();
    for space in spaces {
        request.check_cancelled()?;
        let is_volume = space.volume_size.is_some();
        if of_kernel.contains(space.name.as_str()) || (is_volume && is_named(&space.name)) {
            datasets.extend(kernel_dataset(commands, space, &snapshots, unknown));
        }
    }
    datasets.extend(of_engine.into_iter().filter_map(|name| engine_dataset(name, unknown)));
    Ok(datasets)
}

fn kernel_dataset(
    commands: &ZfsCommands,
    space: &DatasetSpace,
    snapshots: &[SnapshotTotals],
    unknown: &mut Vec<String>,
) -> Option<DatasetFacts> {
    let name = &space.name;
    let properties = known(commands.placed_properties(name), &format!("the properties of {name}"), unknown)??;
    let kind = if space.volume_size.is_some() { DatasetKind::Volume } else { DatasetKind::FileSystem };
    Some(DatasetFacts {
        name: name.clone(),
        kind,
        is_of_kernel: true,
        properties: properties.properties,
        space: Some(space.clone()),
        snapshots: snapshots.iter().find(|of| of.dataset == *name).cloned(),
        sample: None,
    })
}

/// A dataset of the user-space engine.
fn engine_dataset(name: &str, unknown: &mut Vec<String>) -> Option<DatasetFacts> {
    let properties = known(UserDatasets.properties(name), &format!("the properties of {name}"), unknown)?;
    Some(DatasetFacts {
        name: name.to_owned(),
        kind: DatasetKind::FileSystem,
        is_of_kernel: false,
        properties,
        space: None,
        snapshots: None,
        sample: None,
    })
}
