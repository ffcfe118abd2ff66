//! Statistics of repeated measurements: medians, 95 % intervals, paired ratios, Student's t.
//!
//! `docs/derivations.md` describes how each figure is computed. Every interval is two-sided and covers 95 %.
//! Figures of trials (times, rates, sizes) are compared as natural logarithms: differences of logarithms are relative
//! changes, and their distribution is closer to a normal one.

mod deviation;
mod independent;
mod interval;
mod ratio;
mod sequential;
mod student;
mod summary;

pub use deviation::Deviation;
pub use independent::change_of_samples;
pub use interval::median_interval;
pub use ratio::{Direction, PairedRatio, RelativeChange};
pub use sequential::interim_levels;
pub use student::{Z975, t975, two_sided_t};
pub use summary::{coefficient_of_variation, mean, median, standard_deviation};

#[cfg(test)]
mod sample;
