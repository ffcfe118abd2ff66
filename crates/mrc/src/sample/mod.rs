//! Miss-ratio curves from all records, or from a sample of them with confidence intervals for the exact curve. An exact
//! run is a sample at a rate of 1.
//!
//! A record is in the sample, with all of its requests, if its hash is below a threshold. A cache whose size is reduced
//! by the same share then behaves like the whole one (SHARDS: Waldspurger and others, "Efficient MRC construction with
//! SHARDS", FAST 2015; for any model: "Cache modeling and optimization using miniature simulations", ATC 2017). A
//! request for a record outside the sample costs only a hash and a counter.
//!
//! Further bits of the hash divide the sample into [`GROUPS`]. Their differences show how far the sample may be from the whole
//! ([`confidence`]). Every size is modelled three times for the whole sample: as it is, and smaller and larger by the uncertainty of the
//! number of sampled records and the coarseness of the model. It is also modelled once in every group, at a sixteenth of the size. A model
//! of one size therefore costs four times as much as one pass over the sampled requests.
//!
//! With a memory limit, samples at a rate of 1, 1/4, 1/16 and so on run side by side. When they exceed the limit, the
//! largest is dropped. The remaining ones have seen the trace from the start at a fixed rate. (SHARDS lowers the
//! threshold of one sample and corrects the counts, which needs a model from which single records can be removed. This
//! method works with all models, and a trace that fits is not sampled at all.)

mod confidence;
mod f2_sketch;
mod level;

use crate::record_map::Touched;
use crate::record_stream::{Sizes, access};
use crate::{Curve, Error, Extent, Model, RecordMap, Result};
use f2_sketch::F2Sketch;
use level::Level;

/// Number of groups of a sample.
const GROUPS: usize = 16;
/// Records that must fit into the sample's cache for a usable miss ratio.
const FEWEST_SLOTS: f64 = 6.0;
/// Records that a sample must have for a usable curve.
const FEWEST_RECORDS: usize = 256;

/// Sampled accesses that are collected before the models receive them.
const BATCH: usize = 1 << 16;
/// With a memory limit: the ratio of the rates of two successive samples, and the number of samples. The smallest has 1
/// record in 4^8, 65536.
const STEP: f64 = 4.0;
const RUNGS: i32 = 9;
/// The smallest memory limit in bytes.
pub const MIN_MEMORY: u64 = 64 << 20;

/// The share of the records that the models receive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// A share of the records, above 0 and at most 1.
    Rate(f64),
    /// The largest share for which records and models need at most this many bytes, at least [`MIN_MEMORY`].
    Memory(u64),
}

impl Amount {
    /// All records: an exact run.
    pub const ALL: Amount = Amount::Rate(1.0);
}

/// Makes the models of caches of the given bytes, with one count for each size in total. The second argument is the
/// sampling rate, which scales the state of a model that does not depend on records (indirect blocks, a device's
/// speed).
pub type Maker = Box<dyn Fn(&[u64], f64) -> Vec<Box<dyn Model>> + Send + Sync>;

/// The models of one curve.
pub struct Family {
    /// The name of the model.
    pub name: String,
    /// Sizes of the whole caches in bytes.
    pub sizes: Vec<u64>,
    /// The smallest cache of a sample in bytes for which the model is accurate.
    pub least_bytes: u64,
    /// How much the size of the sample's cache may deviate in bytes, in addition to chance, because parts of the model
    /// do not shrink with the sample. Such a deviation moves a cliff of the curve.
    pub grain_bytes: u64,
    /// Makes the models of given sizes.
    pub models: Maker,
}

/// The pipeline of one recordsize, from extents to curves, for all records or a sample of them.
pub struct Pipeline {
    record_map: RecordMap,
    sizes: Option<Sizes>,
    sketch: F2Sketch,
    families: Vec<Family>,
    /// In descending order of the rate.
    levels: Vec<Level>,
    amount: Amount,
    /// Accesses and frees that the levels have collected since they last passed them to the models.
    collected: usize,
    too_far: u64,
}

impl Pipeline {
    /// For `amount` of the records of `record_map`. Another seed selects other records.
    ///
    /// # Errors
    /// [`Error::SamplingRate`](crate::Error::SamplingRate) or [`Error::SamplingMemory`](crate::Error::SamplingMemory) if the
    /// amount is invalid.
    pub fn new(record_map: RecordMap, amount: Amount, seed: u64, families: Vec<Family>) -> Result<Pipeline> {
        let rates = match amount {
            Amount::Rate(rate) if rate > 0.0 && rate <= 1.0 => vec![rate],
            Amount::Rate(rate) => return Err(Error::SamplingRate(rate)),
            Amount::Memory(bytes) if bytes < MIN_MEMORY => {
                return Err(Error::SamplingMemory { given: bytes, least: MIN_MEMORY });
            }
            Amount::Memory(_) => (0..RUNGS).map(|n| STEP.powi(-n)).collect(),
        };
        Ok(Pipeline {
            record_map,
            sizes: None,
            sketch: F2Sketch::new(seed),
            levels: rates.into_iter().map(|rate| Level::new(rate, &families)).collect(),
            families,
            amount,
            collected: 0,
            too_far: 0,
        })
    }

    /// Sets the sizes of records in the cache; `None` for the logical sizes.
    pub fn with_sizes(self, sizes: Option<Sizes>) -> Pipeline {
        Pipeline { sizes, ..self }
    }

    /// Processes the next extents of the trace.
    ///
    /// # Errors
    /// [`Error::TooManyRecords`](crate::Error::TooManyRecords) if the sample has too many different records.
    pub fn feed(&mut self, extents: &[Extent]) -> Result<()> {
        for extent in extents {
            self.take(extent)?;
            if self.collected >= BATCH {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn take(&mut self, extent: &Extent) -> Result<()> {
        // An exact run needs no statistics, and every record is in it.
        let is_exact = self.amount == Amount::ALL;
        let Pipeline { record_map, sizes, sketch, levels, collected, .. } = self;
        let touched = record_map.split(extent, |cut| {
            let hash = if is_exact { sketch.pass() } else { sketch.see(cut.key) };
            if !levels[0].takes(hash) {
                return;
            }
            *collected += 1;
            let access = access(sizes.as_ref(), extent, cut);
            for level in levels.iter_mut().take_while(|level| level.takes(hash)) {
                level.records.push(cut.key, access);
            }
        });
        match touched {
            Touched::Freed(first, last) => {
                *collected += 1;
                levels.iter_mut().try_for_each(|level| level.records.free(first, last, extent.t_ms()))?;
            }
            Touched::TooFar => self.too_far += 1,
            Touched::Records | Touched::Nothing => {}
        }
        Ok(())
    }

    /// Passes the collected accesses to the models. Must be called at the end of the trace.
    ///
    /// # Errors
    /// [`Error::TooManyRecords`](crate::Error::TooManyRecords) if the sample has too many different records.
    pub fn flush(&mut self) -> Result<()> {
        self.collected = 0;
        for level in &mut self.levels {
            level.feed(&self.families, &self.sketch)?;
        }
        if let Amount::Memory(most) = self.amount {
            while self.levels.len() > 1 && self.memory() as u64 > most {
                self.levels.remove(0);
            }
        }
        Ok(())
    }

    /// Accesses to records so far, sampled or not, without frees.
    pub fn requests(&self) -> u64 {
        self.sketch.requests()
    }

    /// The current sampling rate; with a memory limit it can still fall.
    pub fn rate(&self) -> f64 {
        self.levels[0].rate()
    }

    /// Bytes of memory used by records and models.
    pub fn memory(&self) -> usize {
        self.levels.iter().map(Level::memory).sum()
    }

    /// The number of events that were skipped because keys cannot represent them at this recordsize.
    pub fn too_far(&self) -> u64 {
        self.too_far
    }

    /// The curves of the flushed accesses, in the order of the families. Every point has a confidence interval unless
    /// the rate is 1.
    pub fn curves(&self) -> Vec<Curve> {
        let recordsize = self.record_map.recordsize();
        self.levels[0].curves(&self.families, &self.sketch, recordsize)
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline")
            .field("requests", &self.requests())
            .field("rate", &self.rate())
            .finish_non_exhaustive()
    }
}
