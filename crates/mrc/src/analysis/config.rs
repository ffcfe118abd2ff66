//! The models by name, and a sweep with all of them for each recordsize.

use super::error::{Error, Result};
use super::model_name::ModelName;
use super::ratios::Ratios;
use super::request::MrcRequest;
use super::sizes::{self, CacheSizes};
use crate::input::Unit;
use crate::openzfs::{GRAIN, MIN_SAMPLED, OpenZfs, Options};
use crate::packed::packed;
use crate::sample::{Amount, Family, Maker};
use crate::{Input, Lru, Model, Pipeline, RecordMap, Sweep, arc};

/// The largest record of OpenZFS in bytes. Larger objects count as records of this size for the ARC's metadata.
const MAX_RECORD: u64 = 16 << 20;

/// The models of one run.
#[derive(Debug)]
pub struct ModelConfig {
    /// Whether the trace has bytes of files or objects.
    pub unit: Unit,
    /// See [`crate::Input::has_fine_times`].
    pub fine_times: bool,
    /// The typical length of a read in bytes, if known. It determines how records that `primarycache` excludes are read.
    pub read_bytes: Option<u64>,
    /// The request.
    pub request: MrcRequest,
    /// The models, each once, in the order of their curves.
    pub models: Vec<ModelName>,
    /// Record sizes in bytes, ascending; empty for a trace of objects.
    pub recordsizes: Vec<u64>,
    /// The sizes of the caches.
    pub sizes: CacheSizes,
    /// The compression ratios of the records.
    pub ratios: Ratios,
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

impl ModelConfig {
    /// Makes a pipeline with all models for each recordsize.
    ///
    /// # Errors
    /// If a recordsize is not one of OpenZFS, or the sample is too small or too large.
    pub fn sweep(&self) -> crate::Result<Sweep> {
        let mut sweep = Sweep::default();
        let recordsizes: Vec<Option<u64>> = match self.unit {
            Unit::Objects => vec![None],
            Unit::Bytes { .. } => self.recordsizes.iter().copied().map(Some).collect(),
        };
        for recordsize in recordsizes {
            let record_map = RecordMap::of(self.unit, recordsize)?;
            let ratio = self.ratios.of(recordsize);
            let sizes = (ratio > 1.0).then(|| packed(ratio, self.ratios.sector));
            let families: Vec<Family> =
                self.models.iter().map(|model| self.family(*model, record_map.recordsize())).collect();
            let amount = self.request.sample.unwrap_or(Amount::ALL);
            sweep.add(Pipeline::new(record_map, amount, self.request.seed, families)?.with_sizes(sizes));
        }
        Ok(sweep)
    }

    /// Makes one model of one size that is shown every record.
    pub(super) fn one_model(
        &self,
        model: ModelName,
        recordsize: Option<u64>,
        cache_bytes: u64,
    ) -> Box<dyn Model> {
        let mut models = (self.family(model, recordsize).models)(&[cache_bytes], 1.0);
        models.pop().expect("a model for each size")
    }

    fn family(&self, model: ModelName, recordsize: Option<u64>) -> Family {
        let each = |make: Box<dyn Fn(u64, f64) -> Box<dyn Model> + Send + Sync>| -> Maker {
            Box::new(move |sizes, rate| sizes.iter().map(|size| make(*size, rate)).collect())
        };
        let models: Maker = match model {
            ModelName::Lru => Box::new(|sizes, _| vec![Box::new(Lru::new(sizes)) as _]),
            ModelName::Arc => each(Box::new(|size, _| Box::new(arc::Arc::new(size)))),
            ModelName::Openzfs => {
                let options = self.arc_options(recordsize);
                each(Box::new(move |cache_bytes, rate| {
                    Box::new(OpenZfs::new(Options { cache_bytes, ..options }.sampled(rate)))
                }))
            }
        };
        let (least_bytes, grain_bytes) =
            if model == ModelName::Openzfs { (MIN_SAMPLED, GRAIN) } else { (0, 0) };
        Family {
            name: model.name().to_owned(),
            sizes: self.sizes.of(model),
            least_bytes,
            grain_bytes,
            models,
        }
    }

    /// Options of an ARC with records of this size, or with objects. Its own size is not set.
    fn arc_options(&self, recordsize: Option<u64>) -> Options {
        let request = &self.request;
        let offsets = self.unit != Unit::Objects;
        let mut options = Options {
            offsets,
            prefetch: request.prefetch && offsets,
            primarycache: request.primarycache,
            partial_reads: recordsize.zip(self.read_bytes).is_some_and(|(record, read)| read < record),
            l2arc_bytes: request.l2arc_bytes,
            ..Options::new(0, recordsize.unwrap_or(MAX_RECORD) as u32)
        };
        if !self.fine_times {
            match request.requests_per_s {
                // The time between two uses is unknown, so every second use promotes.
                None => options.mintime_ms = 0,
                Some(rate) => options.requests_per_s = rate,
            }
        }
        options
    }
}
