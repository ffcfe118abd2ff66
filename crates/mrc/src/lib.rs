//! Cache models and miss-ratio curves: how often a trace misses in a cache of each size.
//!
//! The way of the data: an [`input`] yields [`Extent`]s (what was read or written where), a [`RecordMap`] cuts them into
//! records of one recordsize, an [`Intern`] gives each record a dense number, and every [`Model`] is fed the same
//! [`Access`]es in chunks and says its points at the end.
//!
//! ```text
//! trace, .lis, oracleGeneral ─▶ Extent ─RecordMap─▶ Key ─(Sample)─Intern─▶ Access ─▶ Model… ─▶ Curve
//! ```
//!
//! Sizes are bytes throughout; a hit ratio is over accesses to records, as `arcstats` counts them.

pub mod access;
pub mod advice;
pub mod analysis;
pub mod arc;
pub mod curve;
pub mod error;
pub mod footprint;
mod hash;
pub mod input;
pub mod intern;
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
pub use sample::Sampled;
pub use sweep::Sweep;

/// A cache, or a family of caches that differ in size, which is shown a trace and counts what misses.
///
/// The same chunk is fed to every model of a run, on as many threads as there are processors; a model keeps what it
/// needs of an access and no reference to the chunk.
pub trait Model: Send {
    /// Accesses in the order of the trace. Record numbers are dense: at most one more than the highest before. `keys` has
    /// the key of every record so far by its number, for a model that wants to know a record's file and neighbours.
    fn feed(&mut self, chunk: &[Access], keys: &[Key]);

    /// One count per cache size, in the order of the sizes that the model was made with.
    fn counts(&self) -> Vec<Counts>;

    /// Bytes of memory that the model holds now, for the figure per tracked record.
    fn memory(&self) -> usize;
}

/// Makes a vector at least `len` long. It grows by a quarter at a time: what models keep for every record is bounded
/// closer than by doubling.
pub(crate) fn grow<T: Clone>(vec: &mut Vec<T>, len: usize, value: T) {
    if len > vec.len() {
        if len > vec.capacity() {
            vec.reserve_exact(len - vec.len() + vec.len() / 4);
        }
        vec.resize(len, value);
    }
}
