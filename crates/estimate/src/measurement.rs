//! What a pass over the data yields: for one point, and in all.

use crate::record::{Packed, Speed};
use crate::result::{Ended, Space};

/// What a full pass and a sample both yield.
pub(crate) struct Measurement {
    pub spaces: Vec<Space>,
    pub speed: Vec<Speed>,
    pub packed: Vec<Vec<Packed>>,
    pub histogram: [u64; 256],
    pub places: u64,
    pub ended: Ended,
}

/// What the estimate learned at one sampled point.
pub(crate) struct PointShares {
    pub file: usize,
    /// Length under lz4 and entropy of the 64K there, as shares.
    pub scout: [f64; 2],
    /// Pair, and `asize` over length on the line for each geometry.
    pub shares: Vec<(usize, Vec<f64>)>,
    pub packed: Vec<(usize, Vec<Packed>)>,
    pub histogram: [u64; 256],
}
