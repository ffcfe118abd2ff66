//! The models by their names, and a stream with all of them for each recordsize.

use poolwright_mrc::input::Unit;
use poolwright_mrc::openzfs::{GRAIN, LEAST_SAMPLED, OpenZfs, Options, PrimaryCache};
use poolwright_mrc::packed::packed;
use poolwright_mrc::record_stream;
use poolwright_mrc::sample::{Amount, Family, Maker};
use poolwright_mrc::{Lru, Model, RecordMap, RecordStream, Result, Run, Sampled, Sweep, arc};
use poolwright_trace::format_size;

use super::model_name::ModelName;
use super::ratios::Ratios;
use super::sizes::Sizes;

/// Record sizes that OpenZFS takes; larger objects count as this large for what it keeps beside them.
const LARGEST_RECORD: u64 = 16 << 20;

/// Below a page of memory and a sector of most disks, a recordsize is one that nobody has.
const FEWEST_BYTES: u64 = 4096;

/// What OpenZFS's ARC depends on beside its size.
#[derive(Clone, Copy)]
pub struct Arcs {
    /// Whether records lie in files, with indirect blocks above them and neighbours to be read ahead.
    pub offsets: bool,
    /// See [`poolwright_mrc::Input::has_fine_times`].
    pub fine_times: bool,
    /// Where times are not fine.
    pub requests_per_s: Option<u32>,
    pub prefetch: bool,
    pub l2arc_bytes: u64,
    pub primarycache: PrimaryCache,
    /// What is read at once, where it is known; it matters for what `primarycache` keeps out.
    pub read_bytes: Option<u64>,
}

/// What is to be modelled.
pub struct ModelConfig {
    pub unit: Unit,
    pub arc: Arcs,
    pub models: Vec<ModelName>,
    /// Ascending; none of objects.
    pub recordsizes: Vec<u64>,
    pub sizes: Sizes,
    pub ratios: Ratios,
    /// How much to look at; all of it, if `None`.
    pub sample: Option<Amount>,
    /// Which sample.
    pub seed: u64,
}

/// What has to be said of the caches asked for.
pub fn notes(config: &ModelConfig) -> Vec<String> {
    let mut notes: Vec<String> = config.sizes.note(&config.models).into_iter().collect();
    let own = match config.unit {
        Unit::Bytes { recordsize } => recordsize,
        Unit::Objects => return notes,
    };
    let least = config.recordsizes.first().copied().unwrap_or(own);
    if config.models.contains(&ModelName::Openzfs) && least < FEWEST_BYTES {
        notes.push(format!(
            "OpenZFS's ARC holds more about records of {} than of them, and no database has such a dataset: name \
             --recordsize 8K or more",
            format_size(least)
        ));
    }
    notes
}

/// A stream for each recordsize.
pub fn sweep(config: &ModelConfig) -> Result<Sweep> {
    let mut sweep = Sweep::new();
    let recordsizes: Vec<Option<u64>> = match config.unit {
        Unit::Objects => vec![None],
        Unit::Bytes { .. } => config.recordsizes.iter().copied().map(Some).collect(),
    };
    for recordsize in &recordsizes {
        let record_map = RecordMap::of(config.unit, *recordsize)?;
        let ratio = config.ratios.of(*recordsize);
        let sizes = (ratio > 1.0).then(|| packed(ratio, config.ratios.sector));
        let families =
            config.models.iter().map(|model| family(*model, config, record_map.recordsize())).collect();
        match config.sample {
            None => all(&mut sweep, RecordStream::new(config.unit, *recordsize)?, sizes, families),
            Some(amount) => {
                let sampled = Sampled::new(record_map, amount, config.seed, families)?;
                sweep.sample(match sizes {
                    Some(sizes) => sampled.with_sizes(sizes),
                    None => sampled,
                });
            }
        }
    }
    Ok(sweep)
}

/// One model of one size that is shown every record.
pub fn one(model: ModelName, config: &ModelConfig, recordsize: Option<u64>, size: u64) -> Box<dyn Model> {
    let mut models = (family(model, config, recordsize).models)(&[size], 1.0);
    models.pop().expect("a model for each size")
}

fn all(sweep: &mut Sweep, stream: RecordStream, sizes: Option<record_stream::Sizes>, families: Vec<Family>) {
    let mut run = Run::new();
    for family in families {
        run.add(&family.name, (family.models)(&family.sizes, 1.0));
    }
    sweep.add(
        match sizes {
            Some(sizes) => stream.with_sizes(sizes),
            None => stream,
        },
        run,
    );
}

fn family(model: ModelName, config: &ModelConfig, recordsize: Option<u64>) -> Family {
    let each = |make: Box<dyn Fn(u64, f64) -> Box<dyn Model> + Send + Sync>| -> Maker {
        Box::new(move |sizes, rate| sizes.iter().map(|size| make(*size, rate)).collect())
    };
    let models: Maker = match model {
        ModelName::Lru => Box::new(|sizes, _| vec![Box::new(Lru::new(sizes)) as _]),
        ModelName::Arc => each(Box::new(|size, _| Box::new(arc::Arc::new(size)))),
        ModelName::Openzfs => {
            let arc = config.arc;
            each(Box::new(move |size, rate| Box::new(OpenZfs::new(options(arc, recordsize, size, rate)))))
        }
    };
    let (least_bytes, grain_bytes) =
        if model == ModelName::Openzfs { (LEAST_SAMPLED, GRAIN) } else { (0, 0) };
    Family { name: model.name().to_owned(), sizes: config.sizes.of(model), least_bytes, grain_bytes, models }
}

/// An ARC of `size` bytes that is shown a share of `rate` of the records.
fn options(arc: Arcs, recordsize: Option<u64>, size: u64, rate: f64) -> Options {
    let mut options = Options::new(size, recordsize.unwrap_or(LARGEST_RECORD) as u32);
    options.offsets = arc.offsets;
    options.prefetch = arc.prefetch && arc.offsets;
    options.primarycache = arc.primarycache;
    options.partial_reads = recordsize.zip(arc.read_bytes).is_some_and(|(record, read)| read < record);
    // Of the sample's records it holds the sample's share.
    options.l2arc_bytes = (arc.l2arc_bytes as f64 * rate) as u64;
    if !arc.fine_times {
        match arc.requests_per_s {
            // Nothing is known of how close two uses are.
            None => options.mintime_ms = 0,
            Some(rate) => options.requests_per_s = rate,
        }
    }
    options.sampled(rate)
}
