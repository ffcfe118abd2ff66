//! The models by their names, and a lane with all of them for each recordsize.

use clap::ValueEnum;
use poolwright_mrc::input::Unit;
use poolwright_mrc::lane;
use poolwright_mrc::openzfs::{GRAIN, LEAST_SAMPLED, OpenZfs, Options, PrimaryCache};
use poolwright_mrc::packed::packed;
use poolwright_mrc::sample::{Amount, Family, Maker};
use poolwright_mrc::{Lane, Lanes, Lru, Model, Result, Run, Sampled, Splitter, arc};
use poolwright_trace::format_size;

use super::ratios::Ratios;
use super::sizes::Sizes;

/// Record sizes that OpenZFS takes; larger objects count as this large for what it keeps beside them.
const LARGEST_RECORD: u64 = 16 << 20;

/// Below a page of memory and a sector of most disks, a recordsize is one that nobody has.
const FEWEST_BYTES: u64 = 4096;

/// As `--model` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// The least recently used record leaves
    Lru,
    /// The textbook's adaptive replacement cache (Megiddo and Modha, FAST '03)
    Arc,
    /// OpenZFS's own ARC, as it is since 2.2
    Openzfs,
}

impl ModelName {
    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ModelName::Lru => "lru",
            ModelName::Arc => "arc",
            ModelName::Openzfs => "openzfs",
        }
    }
}

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
pub struct Ask {
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
pub fn notes(ask: &Ask) -> Vec<String> {
    let mut notes: Vec<String> = ask.sizes.note(&ask.models).into_iter().collect();
    let own = match ask.unit {
        Unit::Bytes { recordsize } => recordsize,
        Unit::Objects => return notes,
    };
    let least = ask.recordsizes.first().copied().unwrap_or(own);
    if ask.models.contains(&ModelName::Openzfs) && least < FEWEST_BYTES {
        notes.push(format!(
            "OpenZFS's ARC holds more about records of {} than of them, and no database has such a dataset: name \
             --recordsize 8K or more",
            format_size(least)
        ));
    }
    notes
}

/// A lane for each recordsize.
pub fn lanes(ask: &Ask) -> Result<Lanes> {
    let mut lanes = Lanes::new();
    let recordsizes: Vec<Option<u64>> = match ask.unit {
        Unit::Objects => vec![None],
        Unit::Bytes { .. } => ask.recordsizes.iter().copied().map(Some).collect(),
    };
    for recordsize in &recordsizes {
        let splitter = Splitter::of(ask.unit, *recordsize)?;
        let ratio = ask.ratios.of(*recordsize);
        let sizes = (ratio > 1.0).then(|| packed(ratio, ask.ratios.sector));
        let families = ask.models.iter().map(|model| family(*model, ask, splitter.recordsize())).collect();
        match ask.sample {
            None => all(&mut lanes, Lane::new(ask.unit, *recordsize)?, sizes, families),
            Some(amount) => {
                let sampled = Sampled::new(splitter, amount, ask.seed, families)?;
                lanes.sample(match sizes {
                    Some(sizes) => sampled.with_sizes(sizes),
                    None => sampled,
                });
            }
        }
    }
    Ok(lanes)
}

/// One model of one size that is shown every record.
pub fn one(model: ModelName, ask: &Ask, recordsize: Option<u64>, size: u64) -> Box<dyn Model> {
    let mut models = (family(model, ask, recordsize).models)(&[size], 1.0);
    models.pop().expect("a model for each size")
}

fn all(lanes: &mut Lanes, lane: Lane, sizes: Option<lane::Sizes>, families: Vec<Family>) {
    let mut run = Run::new();
    for family in families {
        run.add(&family.name, (family.models)(&family.sizes, 1.0));
    }
    lanes.add(
        match sizes {
            Some(sizes) => lane.with_sizes(sizes),
            None => lane,
        },
        run,
    );
}

fn family(model: ModelName, ask: &Ask, recordsize: Option<u64>) -> Family {
    let each = |make: Box<dyn Fn(u64, f64) -> Box<dyn Model> + Send + Sync>| -> Maker {
        Box::new(move |sizes, rate| sizes.iter().map(|size| make(*size, rate)).collect())
    };
    let models: Maker = match model {
        ModelName::Lru => Box::new(|sizes, _| vec![Box::new(Lru::new(sizes)) as _]),
        ModelName::Arc => each(Box::new(|size, _| Box::new(arc::Arc::new(size)))),
        ModelName::Openzfs => {
            let arc = ask.arc;
            each(Box::new(move |size, rate| Box::new(OpenZfs::new(options(arc, recordsize, size, rate)))))
        }
    };
    let (least_bytes, grain_bytes) =
        if model == ModelName::Openzfs { (LEAST_SAMPLED, GRAIN) } else { (0, 0) };
    Family { name: model.name().to_owned(), sizes: ask.sizes.of(model), least_bytes, grain_bytes, models }
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
