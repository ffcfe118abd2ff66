//! Whether there is enough space for the copies.

use super::{Assessment, DatasetAssessment};
use crate::Result;
use crate::error::refused;

/// Space that must stay free in addition to that of the copies, in bytes.
pub const RESERVE: u64 = 64 << 20;

impl Assessment {
    /// Refuses if there is not enough space for the copies.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn check_space(&self) -> Result<()> {
        let needed = |of: &DatasetAssessment| {
            // Datasets of one pool share its space.
            let pool = poolwright_datasets::pool_of(&of.dataset);
            let same_pool =
                self.datasets.iter().filter(|other| poolwright_datasets::pool_of(&other.dataset) == pool);
            same_pool.map(|other| other.needed).sum::<u64>().saturating_add(RESERVE)
        };
        let short = self.datasets.iter().find(|of| of.needed > 0 && of.available < needed(of));
        short.map_or(Ok(()), |of| {
            let size = poolwright_trace::format_size;
            refused(format!(
                "{} has {} available, and the copies of its files need about {} while the old blocks are kept\nhint: free space, or \
                 destroy snapshots that are not needed",
                of.dataset,
                size(of.available),
                size(needed(of))
            ))
        })
    }
}
