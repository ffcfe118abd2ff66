//! Cache models and miss-ratio curves: how often a trace misses in a cache of each size.
//!
//! Data flow: an [`input`] yields [`Extent`]s (ranges of a file that were read or written). A [`RecordMap`] splits them
//! into records of one recordsize. A hash selects the records of the sample; an exact run selects all. An [`Intern`]
//! gives each record a dense number. Every [`Model`] receives the same [`Access`]es in chunks and returns its counts at
//! the end. A [`Pipeline`] is all of this for one recordsize.
//!
//! ```text
//! trace, .lis, oracleGeneral ─▶ Extent ─RecordMap─▶ Key ─sample─Intern─▶ Access ─▶ Model… ─▶ Curve
//! ```
//!
//! Sizes are bytes. A hit ratio is relative to accesses to records, as in `arcstats`.

pub mod access;
pub mod advice;
pub mod analysis;
pub mod arc;
pub mod curve;
pub mod error;
pub mod footprint;
pub mod input;
pub mod intern;
mod list;
pub mod lru;
pub mod openzfs;
pub mod packed;
pub mod partition;
pub mod record_map;
pub mod record_stream;
pub mod run;
pub mod sample;
pub mod sweep;

pub use access::{Access, END, Extent, Key, Kind};
pub use curve::{Confidence, Counts, Curve, Point, Sample, UnsupportedSize};
pub use error::{Error, Result};
pub use footprint::Footprint;
pub use input::{Input, Skipped};
pub use intern::Intern;
pub use lru::Lru;
pub use openzfs::OpenZfs;
pub use record_map::RecordMap;
pub use record_stream::RecordStream;
pub use run::Run;
pub use sample::Pipeline;
pub use sweep::Sweep;

/// A model of one cache, or of several caches that differ in size. It receives the accesses of a trace and counts the
/// misses.
///
/// Every model of a run receives the same chunks, on as many threads as there are processors. A model copies what it
/// needs of an access and keeps no reference to the chunk.
pub trait Model: Send {
    /// Processes accesses in the order of the trace. Record numbers are dense: at most one more than the highest
    /// before. `keys` has the key of every record so far, by its number, for models that use the file and the
    /// neighbours of a record.
    fn feed(&mut self, chunk: &[Access], keys: &[Key]);

    /// The counts of each cache size, in the order of the sizes that the model was made with.
    fn counts(&self) -> Vec<Counts>;

    /// Bytes of memory that the model uses now.
    fn memory(&self) -> usize;
}

/// Makes a vector at least `len` long. The vector grows by a quarter at a time, because doubling would waste too much
/// memory for state that is kept for every record.
pub(crate) fn grow<T: Clone>(vec: &mut Vec<T>, len: usize, value: T) {
    if len > vec.len() {
        if len > vec.capacity() {
            vec.reserve_exact(len - vec.len() + vec.len() / 4);
        }
        vec.resize(len, value);
    }
}
