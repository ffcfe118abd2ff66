//! The tab of the datasets.

use std::collections::HashMap;

use crate::MetricFamily;
use crate::family::{
    DATASET, DATASET_AVAILABLE, DATASET_COMPRESSION, DATASET_QUOTA, DATASET_READ_BYTES, DATASET_READS,
    DATASET_RECORDSIZE, DATASET_REFERENCED, DATASET_SNAPSHOTS, DATASET_USED, DATASET_WRITE_BYTES,
    DATASET_WRITES, MOUNT, MOUNT_OP, MOUNT_READ_BYTES, MOUNT_REQUESTS, MOUNT_WRITE_BYTES,
};

use crate::terminal::rows::{self, RowColumn, RowField, Rows};
use crate::terminal::sample::{MonitorSample, SampledResource};

static COLUMNS: [RowColumn; 13] = [
    RowColumn::text("dataset", 0),
    RowColumn::figure("used", 6, 0),
    RowColumn::figure("avail", 6, 2),
    RowColumn::figure("refer", 6, 3),
    RowColumn::figure("ratio", 6, 4),
    RowColumn::figure("quota", 6, 8),
    RowColumn::figure("recordsize", 10, 7),
    RowColumn::figure("snapshots", 9, 6),
    RowColumn::figure("reads/s", 7, 5),
    RowColumn::figure("writes/s", 8, 5),
    RowColumn::figure("read/s", 6, 1),
    RowColumn::figure("write/s", 7, 1),
    RowColumn::word("engine", 6, 9),
];

/// The order of the datasets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DatasetOrder {
    /// Their names.
    #[default]
    Name,
    /// Used space.
    Used,
    /// Available space.
    Available,
    /// Referenced space.
    Referenced,
    /// Compression ratio.
    Ratio,
    /// Number of snapshots.
    Snapshots,
    /// Bytes read per second.
    Read,
    /// Bytes written per second.
    Written,
}

impl DatasetOrder {
    /// The orders, each with the title of its column.
    const ALL: [(DatasetOrder, &'static str); 8] = [
        (DatasetOrder::Name, "dataset"),
        (DatasetOrder::Used, "used"),
        (DatasetOrder::Available, "avail"),
        (DatasetOrder::Referenced, "refer"),
        (DatasetOrder::Ratio, "ratio"),
        (DatasetOrder::Snapshots, "snapshots"),
        (DatasetOrder::Read, "read/s"),
        (DatasetOrder::Written, "write/s"),
    ];

    /// The next order, after the last one again the first.
    pub fn next(self) -> DatasetOrder {
        DatasetOrder::ALL[(self as usize + 1) % DatasetOrder::ALL.len()].0
    }

    /// The title of the column.
    pub fn title(self) -> &'static str {
        DatasetOrder::ALL[self as usize].1
    }
}

/// Which datasets to show, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatasetChoice {
    /// A part of their names; all datasets if empty.
    pub filter: String,
    /// The order: names from A, figures from the largest.
    pub order: DatasetOrder,
    /// Whether the order is reversed.
    pub is_reversed: bool,
}

/// A row for each chosen dataset.
pub fn rows<'a>(sample: &'a MonitorSample, choice: &DatasetChoice) -> Rows<'a> {
    let all = sample.of(&DATASET);
    let io = MountIo::new(sample);
    let order = order(all, &io, choice);
    Rows {
        title: "Datasets",
        columns: &COLUMNS,
        count: order.len(),
        nothing: if all.is_empty() {
            "no datasets: no open pools found"
        } else {
            "no dataset matches the filter"
        },
        row: Box::new(move |index| row(&all[order[index]], &io)),
    }
}

/// The indices of the chosen datasets in their order.
fn order(all: &[SampledResource], io: &MountIo, choice: &DatasetChoice) -> Vec<usize> {
    let matches = |index: &usize| all[*index].label("dataset").contains(&choice.filter);
    let mut order: Vec<usize> = (0..all.len()).filter(matches).collect();
    order.sort_by(|a, b| all[*a].label("dataset").cmp(all[*b].label("dataset")));
    let key = |dataset: &SampledResource| match choice.order {
        DatasetOrder::Name => None,
        DatasetOrder::Used => dataset.value(&DATASET_USED),
        DatasetOrder::Available => dataset.value(&DATASET_AVAILABLE),
        DatasetOrder::Referenced => dataset.value(&DATASET_REFERENCED),
        DatasetOrder::Ratio => dataset.value(&DATASET_COMPRESSION),
        DatasetOrder::Snapshots => dataset.value(&DATASET_SNAPSHOTS),
        DatasetOrder::Read => io.rate(dataset, &DATASET_READ_BYTES),
        DatasetOrder::Written => io.rate(dataset, &DATASET_WRITE_BYTES),
    };
    if choice.order != DatasetOrder::Name {
        let keys: Vec<f64> = all.iter().map(|dataset| key(dataset).unwrap_or(f64::NEG_INFINITY)).collect();
        order.sort_by(|a, b| keys[*b].total_cmp(&keys[*a])); // stable: equal ones stay ordered by name
    }
    if choice.is_reversed {
        order.reverse();
    }
    order
}

fn row(dataset: &SampledResource, io: &MountIo) -> Vec<RowField> {
    vec![
        RowField::text(dataset.label("dataset")),
        rows::size(dataset.value(&DATASET_USED)),
        rows::size(dataset.value(&DATASET_AVAILABLE)),
        rows::size(dataset.value(&DATASET_REFERENCED)),
        rows::factor(dataset.value(&DATASET_COMPRESSION)),
        rows::size(dataset.value(&DATASET_QUOTA)),
        rows::size(dataset.value(&DATASET_RECORDSIZE)),
        rows::count(dataset.value(&DATASET_SNAPSHOTS)),
        rows::per_second(io.rate(dataset, &DATASET_READS)),
        rows::per_second(io.rate(dataset, &DATASET_WRITES)),
        rows::size(io.rate(dataset, &DATASET_READ_BYTES)),
        rows::size(io.rate(dataset, &DATASET_WRITE_BYTES)),
        RowField::text(dataset.label("engine")),
    ]
}

/// The I/O of programs through mounts of the user-space engine: rates by pool, dataset and the dataset's counter.
struct MountIo<'a>(HashMap<(&'a str, &'a str, &'static str), f64>);

impl<'a> MountIo<'a> {
    fn new(sample: &'a MonitorSample) -> MountIo<'a> {
        let mut rates = HashMap::new();
        let mut add = |mount: &'a SampledResource, figure: &MetricFamily, counter: &MetricFamily| {
            if let Some(rate) = mount.rate(figure) {
                *rates.entry((mount.label("pool"), mount.label("dataset"), counter.name)).or_default() +=
                    rate;
            }
        };
        for mount in sample.of(&MOUNT) {
            add(mount, &MOUNT_READ_BYTES, &DATASET_READ_BYTES);
            add(mount, &MOUNT_WRITE_BYTES, &DATASET_WRITE_BYTES);
        }
        for op in sample.of(&MOUNT_OP) {
            match op.label("op") {
                "read" => add(op, &MOUNT_REQUESTS, &DATASET_READS),
                "write" => add(op, &MOUNT_REQUESTS, &DATASET_WRITES),
                _ => {}
            }
        }
        MountIo(rates)
    }

    /// The rate of a dataset's counter, or that of its mounts.
    fn rate(&self, dataset: &SampledResource, counter: &MetricFamily) -> Option<f64> {
        let mounts = (dataset.label("pool"), dataset.label("dataset"), counter.name);
        let of_mounts = || self.0.get(&mounts).copied().filter(|_| dataset.label("engine") == "user");
        dataset.rate(counter).or_else(of_mounts)
    }
}
