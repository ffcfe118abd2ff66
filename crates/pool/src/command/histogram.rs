//! Histograms of latencies and request sizes: `zpool iostat -w` and `-r`.

use super::error::MalformedOutput;

/// Which histogram `zpool iostat` printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistogramKind {
    /// `-w`: times. The bound of a bucket is the longest time in it, in nanoseconds: 2ⁿ − 1.
    Latency,
    /// `-r`: sizes of I/Os. The bound of a bucket is the smallest size in it, in bytes: 2ⁿ.
    RequestSize,
}

/// The columns of [`HistogramKind::Latency`], by their number: 10 columns until 2.2, and `rebuild` since 2.3.
pub const LATENCY_COLUMNS: [&str; 11] = [
    "total_wait_read",
    "total_wait_write",
    "disk_wait_read",
    "disk_wait_write",
    "syncq_wait_read",
    "syncq_wait_write",
    "asyncq_wait_read",
    "asyncq_wait_write",
    "scrub",
    "trim",
    "rebuild",
];

/// The columns of [`HistogramKind::RequestSize`], by their number: 12 columns until 2.2, and those of `rebuild` since 2.3.
/// `ind` counts I/Os that were issued on their own, `agg` those that were made by aggregating several.
pub const REQUEST_SIZE_COLUMNS: [&str; 14] = [
    "sync_read_ind",
    "sync_read_agg",
    "sync_write_ind",
    "sync_write_agg",
    "async_read_ind",
    "async_read_agg",
    "async_write_ind",
    "async_write_agg",
    "scrub_ind",
    "scrub_agg",
    "trim_ind",
    "trim_agg",
    "rebuild_ind",
    "rebuild_agg",
];

/// The histogram of one vdev, counted since the pool was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevHistogram {
    /// The pool's name.
    pub pool: String,
    /// The vdev's GUID; `None` for the whole pool.
    pub vdev: Option<u64>,
    /// The bounds of the buckets, ascending; [`HistogramKind`] says what they are.
    pub bounds: Vec<u64>,
    /// The columns: each has a name and the number of I/Os in each bucket.
    pub columns: Vec<HistogramColumn>,
}

/// One column of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramColumn {
    /// The name, from [`LATENCY_COLUMNS`] or [`REQUEST_SIZE_COLUMNS`].
    pub name: &'static str,
    /// The number of I/Os in each bucket. The counts are not summed over buckets.
    pub counts: Vec<u64>,
}

/// Parses the output of `zpool iostat -wvgHp` or `-rvgHp`.
///
/// # Errors
/// If a line is malformed, a vdev comes before its pool, or a histogram has an unknown number of columns.
pub fn parse_histograms(text: &str, kind: HistogramKind) -> Result<Vec<VdevHistogram>, MalformedOutput> {
    todo!("{text} {kind:?}")
}
