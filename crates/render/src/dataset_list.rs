//! The table of `dataset list`.

use poolwright_report::{Table, Terminal};
use poolwright_zfs::user::DatasetInfo;

use crate::listing::{NONE, listing, size};

/// Renders datasets and snapshots with their space. `script` and `plain` are those of [`listing`] and [`size`].
pub fn text(datasets: &[DatasetInfo], script: bool, plain: bool, terminal: Terminal) -> String {
    let mounts = |dataset: &DatasetInfo| {
        let mounts: Vec<String> = dataset.mounted_on.iter().map(|dir| dir.display().to_string()).collect();
        if mounts.is_empty() { NONE.to_owned() } else { mounts.join(",") }
    };
    let table = Table::of(datasets)
        .left("NAME", |dataset| dataset.name.as_str())
        .right("USED", |dataset| size(dataset.stats.map(|stats| stats.used), plain))
        .right("AVAIL", |dataset| size(dataset.available, plain))
        .right("REFER", |dataset| size(dataset.stats.map(|stats| stats.referenced), plain))
        .left("MOUNTED ON", mounts)
        .table();
    listing(&table, script, terminal)
}
