//! The result of a pass over the data, for one point and in total.

use std::collections::BTreeMap;

use crate::record::{Packed, Speed};
use crate::result::{Ended, Space};

/// The result of a full pass or of a sample.
pub(crate) struct Measurement {
    pub spaces: Vec<Space>,
    pub speed: Vec<Speed>,
    /// Compressed lengths of some records of each pair, in the order of the files.
    pub packed: Vec<Vec<Packed>>,
    /// For each pair, those of all records of a file, by the file's number. Without files for which they were not kept.
    pub files: Vec<BTreeMap<usize, Vec<Packed>>>,
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
