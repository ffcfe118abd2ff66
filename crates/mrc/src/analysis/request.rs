//! What a user requests of an analysis, before the trace is known.

use super::config::ModelConfig;
use super::error::{Error, Result};
use super::model_name::ModelName;
use super::ratios::{RatioSource, Ratios};
use super::sizes::{self, CacheSizes};
use crate::Input;
use crate::input::Unit;
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

impl MrcRequest {
    /// The configuration of the models for an input. Calls `choose` with the largest recordsize and its compression ratio if
    /// the request names no cache sizes.
    ///
    /// # Errors
    /// If the request does not fit the input, an estimate cannot be used, or `choose` fails.
    pub fn config(
        &self,
        input: &dyn Input,
        choose: impl FnOnce(Option<u64>, f64) -> Result<CacheSizes>,
    ) -> Result<ModelConfig> {
        let unit = input.unit();
        if unit == Unit::Objects && !self.recordsizes.is_empty() {
            return Err(Error::ObjectsHaveNoRecordsize);
        }
        let recordsizes = self.recordsizes(unit);
        sizes::check(&self.sizes, &self.models, &recordsizes)?;
        let ratios = Ratios::new(&self.ratios, self.ashift, &recordsizes)?;
        let largest = recordsizes.last().copied();
        let sizes = match CacheSizes::requested(&self.sizes) {
            Some(sizes) => sizes,
            None => choose(largest, ratios.of(largest))?,
        };
        let mut models: Vec<ModelName> = Vec::new();
        for model in &self.models {
            if !models.contains(model) {
                models.push(*model);
            }
        }
        Ok(ModelConfig {
            unit,
            fine_times: input.has_fine_times(),
            read_bytes: None,
            models,
            recordsizes,
            sizes,
            ratios,
            request: self.clone(),
        })
    }

    /// The record sizes in bytes, ascending: the requested ones, or that of the trace; empty for objects.
    fn recordsizes(&self, unit: Unit) -> Vec<u64> {
        let mut requested = self.recordsizes.clone();
        requested.sort_unstable();
        requested.dedup();
        match unit {
            Unit::Bytes { recordsize } if requested.is_empty() => vec![recordsize],
            _ => requested,
        }
    }
}
