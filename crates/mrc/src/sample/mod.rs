//! Miss-ratio curves from a sample of the records, each with the confidence interval that the exact curve lies in.
//!
//! A record is in the sample if its hash is below a threshold, with all of its requests; a cache of that share of the size
//! then behaves like the whole one (SHARDS: Waldspurger and others, "Efficient MRC construction with SHARDS", FAST 2015;
//! for any model: "Cache modeling and optimization using miniature simulations", ATC 2017). Only requests to sampled
//! records cost more than a hash and a counter.
//!
//! The sample is split by further bits of the hash into [`GROUPS`] of its own: how much these differ says how far the
//! sample may be from the whole ([`confidence`]). Every size is modelled three times, once as it is, and once as much smaller and
//! larger as the number of sampled records is uncertain and the model is coarse; and once in every group, a sixteenth the
//! size. So a model of one size costs four times what it would for the sampled requests alone.
//!
//! In a given amount of memory, samples at a rate of 1, 1/4, 1/16 and so on run side by side; as they outgrow it, the
//! largest goes. What is left has looked at the trace from the start at one rate. (SHARDS lowers the threshold of one sample
//! and corrects the counts, which needs a model whose records can be taken out one by one; this works with all, and a trace
//! that fits is not sampled at all.)

mod confidence;
mod f2_sketch;
mod level;

use crate::record_map::Touched;
use crate::record_stream::{self, Sizes};
use crate::{Access, Curve, Error, Extent, Key, Kind, Model, RecordMap, Result, Skipped};
use level::Level;

pub use f2_sketch::F2Sketch;

/// Groups that a sample is split into.
pub const GROUPS: usize = 16;
/// Records that have to fit into the sample's cache for its miss ratio to mean anything.
pub const FEWEST_SLOTS: f64 = 6.0;
/// Records that a sample has to have for its curve to mean anything.
pub const FEWEST_RECORDS: usize = 256;

/// Sampled accesses that are gathered before the models see them.
const BATCH: usize = 1 << 16;
/// How much less each of the samples in a given amount of memory takes than the one before, and how many there are: the
/// least is 1 record in 4^8, 65536.
const STEP: f64 = 4.0;
const RUNGS: i32 = 9;
/// Least memory to be given: what the models of all samples take before they have seen much.
pub const LEAST_MEMORY: u64 = 64 << 20;

/// How much to look at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// This share of the records, above 0 and at most 1.
    Rate(f64),
    /// As large a share as keeps records and models within so many bytes, at least [`LEAST_MEMORY`].
    Memory(u64),
}

/// Makes models of caches of so many bytes each, together as many counts as sizes. The second argument is the sampling
/// rate, which scales what a model adds of its own (indirect blocks, a device's speed).
pub type Maker = Box<dyn Fn(&[u64], f64) -> Vec<Box<dyn Model>> + Send + Sync>;

/// The caches of one curve.
pub struct Family {
    /// The model's name, as `--model` takes it.
    pub name: String,
    /// Sizes of the whole caches in bytes.
    pub sizes: Vec<u64>,
    /// Bytes that a sample's cache has to have for the model to be good for it.
    pub least_bytes: u64,
    /// Bytes that the sample's cache may have too many or too few of beside what chance does: what a model has in extents
    /// that do not shrink with it. They move a cliff of the curve.
    pub grain_bytes: u64,
    /// Makes the models, also of other sizes.
    pub models: Maker,
}

/// One recordsize's way through a sampled run, from extents to curves.
pub struct Sampled {
    record_map: RecordMap,
    sizes: Option<Sizes>,
    sketch: F2Sketch,
    families: Vec<Family>,
    /// By falling rate.
    levels: Vec<Level>,
    memory: Option<u64>,
    steps: Vec<Step>,
    skipped: Skipped,
}

/// An access to a record that may be in a sample; `Free` for all records up to `last`.
#[derive(Clone, Copy, Debug)]
struct Step {
    hash: u64,
    key: Key,
    last: Key,
    access: Access,
}

impl Sampled {
    /// A run over records as `record_map` cuts them. Another seed looks at other records.
    pub fn new(record_map: RecordMap, amount: Amount, seed: u64, families: Vec<Family>) -> Result<Sampled> {
        let (rates, memory) = match amount {
            Amount::Rate(rate) if rate > 0.0 && rate <= 1.0 => (vec![rate], None),
            Amount::Rate(rate) => return Err(Error::SamplingRate(rate)),
            Amount::Memory(bytes) if bytes < LEAST_MEMORY => {
                return Err(Error::SamplingMemory { given: bytes, least: LEAST_MEMORY });
            }
            Amount::Memory(bytes) => ((0..RUNGS).map(|n| STEP.powi(-n)).collect(), Some(bytes)),
        };
        Ok(Sampled {
            record_map,
            sizes: None,
            sketch: F2Sketch::new(seed),
            families,
            levels: rates.into_iter().map(Level::new).collect(),
            memory,
            steps: Vec::with_capacity(BATCH),
            skipped: Skipped::default(),
        })
    }

    /// Records take what `sizes` says instead of their logical bytes.
    pub fn with_sizes(self, sizes: Sizes) -> Sampled {
        Sampled { sizes: Some(sizes), ..self }
    }

    /// Shows the next extents of the trace.
    pub fn feed(&mut self, extents: &[Extent]) -> Result<()> {
        for extent in extents {
            self.take(extent);
            if self.steps.len() >= BATCH {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn take(&mut self, extent: &Extent) {
        let Sampled { record_map, sizes, sketch, levels, steps, .. } = self;
        let t_ms = u32::try_from(extent.t_ns / 1_000_000).unwrap_or(u32::MAX);
        let touched = record_map.split(extent, |cut| {
            let hash = sketch.see(cut.key);
            if levels[0].takes(hash) {
                let bytes = match sizes {
                    Some(sizes) => sizes(extent.file, record_stream::index(cut.key, extent.file), cut.bytes),
                    None => cut.bytes,
                };
                let access = Access { record: 0, bytes, t_ms, kind: cut.kind };
                steps.push(Step { hash, key: cut.key, last: cut.key, access });
            }
        });
        match touched {
            Touched::Freed(key, last) => {
                let access = Access { record: 0, bytes: 0, t_ms, kind: Kind::Free };
                steps.push(Step { hash: 0, key, last, access });
            }
            Touched::TooFar => self.skipped.too_far += 1,
            Touched::Records | Touched::Nothing => {}
        }
    }

    /// Shows the models what was gathered for them: do so at the end of the trace.
    pub fn flush(&mut self) -> Result<()> {
        for level in &mut self.levels {
            level.feed(&self.steps, &self.families)?;
        }
        self.steps.clear();
        while self.levels.len() > 1 && self.memory.is_some_and(|most| self.memory() as u64 > most) {
            self.levels.remove(0);
        }
        Ok(())
    }

    /// Accesses to records so far, frees not counted, whether sampled or not.
    pub fn requests(&self) -> u64 {
        self.sketch.requests()
    }

    /// Share of the records that is looked at now; in a given amount of memory it can still fall.
    pub fn rate(&self) -> f64 {
        self.levels[0].rate()
    }

    /// Bytes of memory for records and models.
    pub fn memory(&self) -> usize {
        self.levels.iter().map(Level::memory).sum()
    }

    /// What was left out because it does not fit this recordsize's keys.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The curves of what was flushed, in the order of the families. Every point has a confidence interval, unless everything was looked
    /// at.
    pub fn curves(&self) -> Vec<Curve> {
        let recordsize = self.record_map.recordsize();
        self.levels[0].curves(&self.families, &self.sketch, recordsize)
    }
}

impl std::fmt::Debug for Sampled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampled")
            .field("requests", &self.requests())
            .field("rate", &self.rate())
            .finish_non_exhaustive()
    }
}
