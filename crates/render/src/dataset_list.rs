//! The table of `dataset list`.

use poolwright_report::Terminal;
use poolwright_zfs::user::DatasetInfo;

use crate::listing::{NONE, listing, size};

const TITLES: &[&str] = &["NAME", "<USED", "<AVAIL", "<REFER", "MOUNTED ON"];

/// Renders datasets and snapshots with their space. `script` and `plain` are those of [`listing`] and [`size`].
pub fn text(datasets: &[DatasetInfo], script: bool, plain: bool, terminal: Terminal) -> String {
    let row = |dataset: &DatasetInfo| {
        let mounts: Vec<String> = dataset.mounted_on.iter().map(|dir| dir.display().to_string()).collect();
        vec![
            dataset.name.clone(),
            size(dataset.stats.map(|stats| stats.used), plain),
            size(dataset.available, plain),
            size(dataset.stats.map(|stats| stats.referenced), plain),
            if mounts.is_empty() { NONE.to_owned() } else { mounts.join(",") },
        ]
    };
    let rows: Vec<Vec<String>> = datasets.iter().map(row).collect();
    listing(TITLES, &rows, script, terminal)
}
