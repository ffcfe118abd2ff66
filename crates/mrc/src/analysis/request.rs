//! The user's request for an analysis, before the trace is read.

use super::model_name::ModelName;
use super::ratios::RatioSource;
use crate::openzfs::PrimaryCache;
use crate::sample::Amount;

/// A request for an analysis.
#[derive(Clone, Debug)]
pub struct MrcRequest {
    /// The models; repetitions are ignored.
    pub models: Vec<ModelName>,
    /// Cache sizes in bytes; empty to choose them for the trace.
    pub sizes: Vec<u64>,
    /// Record sizes in bytes; empty for that of the trace.
    pub recordsizes: Vec<u64>,
    /// The compression ratios of the records.
    pub ratios: RatioSource,
    /// Sector size of the pool as a power of two.
    pub ashift: u32,
    /// The value of the property `primarycache`.
    pub primarycache: PrimaryCache,
    /// Bytes of the L2ARC behind each cache; 0 for none.
    pub l2arc_bytes: u64,
    /// Whether OpenZFS's ARC prefetches for sequential readers.
    pub prefetch: bool,
    /// Requests per second of a trace without times.
    pub requests_per_s: Option<u32>,
    /// The size of the sample; `None` for all records.
    pub sample: Option<Amount>,
    /// The seed of the sample.
    pub seed: u64,
    /// Bytes of memory to divide between the database's own cache and the ARC, if requested.
    pub split_bytes: Option<u64>,
}
