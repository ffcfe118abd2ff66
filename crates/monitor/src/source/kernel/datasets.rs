//! Datasets of one pool: their space, their properties and their snapshots.

use poolwright_base::units::format_size;
use poolwright_zfs::kernel::ZfsCommands;
use poolwright_zfs::kernel::command::dataset::DatasetSpace;
use poolwright_zfs::kernel::command::property::{DatasetProperties, PropertySource, SourcedValue};

use super::ENGINE;
use crate::family::*;
use crate::{Readings, Result};

/// Properties whose values are sizes.
const SIZES: [&str; 3] = ["recordsize", "volblocksize", "special_small_blocks"];

/// The space of the datasets of a pool.
pub fn read_space(pool: &str, commands: &ZfsCommands) -> Result<Readings> {
    let mut readings = Readings::default();
    commands.for_each_dataset(|space| add_space(&mut readings, pool, &space))?;
    Ok(readings)
}

fn add_space(readings: &mut Readings, pool: &str, space: &DatasetSpace) {
    let quota = space.quota.filter(|quota| *quota > 0);
    readings
        .add(&DATASET, [ENGINE, pool, &space.name])
        .count(&DATASET_USED, space.used)
        .count(&DATASET_AVAILABLE, space.available)
        .count(&DATASET_REFERENCED, space.referenced)
        .count(&DATASET_LOGICAL_USED, space.logical_used)
        .count(&DATASET_LOGICAL_REFERENCED, space.logical_referenced)
        .set(&DATASET_COMPRESSION, space.compress_ratio)
        .count(&DATASET_USED_BY_SNAPSHOTS, space.used_by_snapshots)
        .count(&DATASET_USED_BY_DATASET, space.used_by_dataset)
        .count(&DATASET_USED_BY_CHILDREN, space.used_by_children)
        .count(&DATASET_USED_BY_RESERVATION, space.used_by_refreservation)
        .count(&DATASET_WRITTEN, space.written)
        .count(&DATASET_QUOTA, quota);
}

/// The properties of the datasets of a pool.
pub fn read_properties(pool: &str, commands: &ZfsCommands) -> Result<Readings> {
    let mut readings = Readings::default();
    commands.for_each_properties(|dataset| add_properties(&mut readings, pool, &dataset))?;
    Ok(readings)
}

fn add_properties(readings: &mut Readings, pool: &str, dataset: &DatasetProperties) {
    let value = |name: &str| dataset.properties.get(name)?.value.parse().ok();
    let recordsize: Option<u64> = value("recordsize").or_else(|| value("volblocksize"));
    readings.add(&DATASET, [ENGINE, pool, &dataset.dataset]).count(&DATASET_RECORDSIZE, recordsize);
    for (property, SourcedValue { value, source }) in &dataset.properties {
        if matches!(source, PropertySource::Default | PropertySource::None) {
            continue;
        }
        let value = spelled(property, value);
        let labels = [ENGINE, pool, &dataset.dataset, property, &value, &source.to_string()];
        readings.add(&PROPERTY, labels).flag(&PROPERTY_INFO, true);
    }
}

/// The value as `zfs get` prints it without `-p`: 16K instead of 16384.
fn spelled(property: &str, value: &str) -> String {
    let bytes = value.parse().ok().filter(|_| SIZES.contains(&property));
    bytes.map_or_else(|| value.to_owned(), format_size)
}

/// The number and the ages of the snapshots of a pool's datasets.
pub fn read_snapshots(pool: &str, commands: &ZfsCommands) -> Result<Readings> {
    let mut readings = Readings::default();
    for totals in commands.snapshots()? {
        readings
            .add(&DATASET, [ENGINE, pool, &totals.dataset])
            .count(&DATASET_SNAPSHOTS, totals.count)
            .count(&DATASET_OLDEST_SNAPSHOT, totals.oldest)
            .count(&DATASET_NEWEST_SNAPSHOT, totals.newest);
    }
    Ok(readings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spelled_as_zfs_does() {
        assert_eq!(spelled("recordsize", "16384"), "16K");
        assert_eq!(spelled("recordsize", "16777216"), "16M");
        assert_eq!(spelled("volblocksize", "512"), "512");
        assert_eq!(spelled("special_small_blocks", "0"), "0");
        assert_eq!(spelled("copies", "1024"), "1024");
    }
}
