//! The models by name, and a sweep with all of them for each recordsize.

use super::model_name::ModelName;
use super::ratios::Ratios;
use super::sizes::CacheSizes;
use crate::input::Unit;
use crate::openzfs::{GRAIN, MIN_SAMPLED, OpenZfs, Options, PrimaryCache};
use crate::packed::packed;
use crate::sample::{Amount, Family, Maker};
use crate::{Lru, Model, Pipeline, RecordMap, Sweep, arc};

/// The largest record of OpenZFS in bytes. Larger objects count as records of this size for the ARC's metadata.
const MAX_RECORD: u64 = 16 << 20;

/// Parameters of OpenZFS's ARC other than its size.
#[derive(Clone, Copy, Debug)]
pub struct ArcConfig {
    /// Whether records lie in files, so that they have indirect blocks and neighbours to prefetch.
    pub offsets: bool,
    /// See [`crate::Input::has_fine_times`].
    pub fine_times: bool,
    /// Requests per second of a trace whose times are not fine.
    pub requests_per_s: Option<u32>,
    /// Whether the ARC prefetches for sequential readers.
    pub prefetch: bool,
    /// Bytes of the L2ARC; 0 for none.
    pub l2arc_bytes: u64,
    /// The value of the property `primarycache`.
    pub primarycache: PrimaryCache,
    /// The typical length of a read in bytes, if known. It determines how records that `primarycache` excludes are read.
    pub read_bytes: Option<u64>,
}

/// The models of one run.
#[derive(Debug)]
pub struct ModelConfig {
    /// Whether the trace has bytes of files or objects.
    pub unit: Unit,
    /// Parameters of the model `openzfs`.
    pub arc: ArcConfig,
    /// The models, each once, in the order of their curves.
    pub models: Vec<ModelName>,
    /// Record sizes in bytes, ascending; empty for a trace of objects.
    pub recordsizes: Vec<u64>,
    /// The sizes of the caches.
    pub sizes: CacheSizes,
    /// The compression ratios of the records.
    pub ratios: Ratios,
    /// The size of the sample; `None` for all records.
    pub sample: Option<Amount>,
    /// The seed of the sample.
    pub seed: u64,
}

impl ModelConfig {
    /// Makes a pipeline with all models for each recordsize.
    ///
    /// # Errors
    /// If a recordsize is not one of OpenZFS, or the sample is too small or too large.
    pub fn sweep(&self) -> crate::Result<Sweep> {
        let mut sweep = Sweep::new();
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
            let amount = self.sample.unwrap_or(Amount::ALL);
            sweep.add(Pipeline::new(record_map, amount, self.seed, families)?.with_sizes(sizes));
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
                let arc = self.arc;
                each(Box::new(move |size, rate| Box::new(OpenZfs::new(arc.options(recordsize, size, rate)))))
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
}

impl ArcConfig {
    /// Options of an ARC of `cache_bytes` that is shown a share of `rate` of the records.
    fn options(self, recordsize: Option<u64>, cache_bytes: u64, rate: f64) -> Options {
        let mut options = Options::new(cache_bytes, recordsize.unwrap_or(MAX_RECORD) as u32);
        options.offsets = self.offsets;
        options.prefetch = self.prefetch && self.offsets;
        options.primarycache = self.primarycache;
        options.partial_reads = recordsize.zip(self.read_bytes).is_some_and(|(record, read)| read < record);
        // The L2ARC of a sample holds the sample's share of the records.
        options.l2arc_bytes = (self.l2arc_bytes as f64 * rate) as u64;
        if !self.fine_times {
            match self.requests_per_s {
                // The time between two uses is unknown, so every second use promotes.
                None => options.mintime_ms = 0,
                Some(rate) => options.requests_per_s = rate,
            }
        }
        options.sampled(rate)
    }
}
