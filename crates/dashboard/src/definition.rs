//! The dashboards.

mod arc;
mod database;
mod datasets;
mod exporter;
mod plan;
mod pools;
mod shared;
mod transactions;
mod vdevs;

use crate::board::Board;

/// All dashboards, in the order of the documentation.
pub fn boards() -> Vec<Board> {
    vec![
        pools::board(),
        vdevs::board(),
        datasets::board(),
        arc::board(),
        transactions::board(),
        database::board(),
        plan::board(),
        exporter::board(),
    ]
}
