//! Confirmation by the database itself: which settings of a plan are run, on which datasets, and what the outcome means.
//!
//! [`contenders`] reads a plan; `poolwright_lab::confirm` runs the database; [`judge`] holds the outcome against the plan.

mod contenders;
mod judge;
mod places;
#[cfg(test)]
mod tests;

pub use contenders::{Chosen, contenders};
pub use judge::{Block, Judgement, judge};
pub use places::{Dataset, Places, places};

/// Metrics that a confirmation measures, all of them as those of a plan's trials: per unit of work, but for the work rate
/// (units of work per second) and the space (bytes).
pub const MEASURED: [&str; 5] =
    ["work_rate", "allocated_bytes", "vdev_write_bytes", "vdev_read_bytes", "cpu_ns_per_op"];

pub use crate::plan::OBJECTIVE;
