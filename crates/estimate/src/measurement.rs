//! The result of a pass over the data, for one point and in total.

use crate::indirect::KnownRecords;
use crate::record::{Packed, Speed};
use crate::result::{Ended, Space};

/// The result of a full pass or of a sample.
pub(crate) struct Measurement {
    pub spaces: Vec<Space>,
    pub speed: Vec<Speed>,
    /// The records of each pair.
    pub records: Vec<KnownRecords>,
    pub histogram: [u64; 256],
    pub places: u64,
    pub ended: Ended,
}

/// The measurements at one sampled point.
pub(crate) struct PointShares {
    pub file: usize,
    /// The covariates: compressed length of the point's 64K under lz4, and their entropy, both as shares.
    pub scout: [f64; 2],
    /// For each pair that ran: its index, and `asize` divided by length on the line for each geometry.
    pub shares: Vec<(usize, Vec<f64>)>,
    pub packed: Vec<(usize, Vec<Packed>)>,
    pub histogram: [u64; 256],
}
