//! The models by their names, and a lane with all of them for each recordsize.

use clap::ValueEnum;
use poolwright_mrc::input::Unit;
use poolwright_mrc::lane::Sizes;
use poolwright_mrc::openzfs::{OpenZfs, Options};
use poolwright_mrc::{Lane, Lanes, Lru, Model, Result, Run, arc};

/// Record sizes that OpenZFS takes; larger objects count as this large for what it keeps beside them.
const LARGEST_RECORD: u64 = 16 << 20;

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

/// What is to be modelled.
pub struct Ask {
    pub unit: Unit,
    /// See [`poolwright_mrc::Input::has_fine_times`].
    pub fine_times: bool,
    pub models: Vec<ModelName>,
    /// The input's own, if there is none.
    pub recordsizes: Vec<u64>,
    /// Ascending.
    pub sizes: Vec<u64>,
    pub compress_ratio: f64,
    pub sector: u32,
}

/// A lane for each recordsize.
pub fn lanes(ask: &Ask) -> Result<Lanes> {
    let mut lanes = Lanes::new();
    let own = [None];
    let asked: Vec<Option<u64>> = ask.recordsizes.iter().copied().map(Some).collect();
    for recordsize in if asked.is_empty() { &own[..] } else { &asked } {
        let mut lane = Lane::new(ask.unit, *recordsize)?;
        if ask.compress_ratio > 1.0 {
            lane = lane.with_sizes(compressed(ask.compress_ratio, ask.sector));
        }
        let mut run = Run::new();
        for model in &ask.models {
            run.add(model.name(), models(*model, ask, lane.recordsize()));
        }
        lanes.add(lane, run);
    }
    Ok(lanes)
}

fn models(model: ModelName, ask: &Ask, recordsize: Option<u64>) -> Vec<Box<dyn Model>> {
    let each = |make: &dyn Fn(u64) -> Box<dyn Model>| ask.sizes.iter().map(|size| make(*size)).collect();
    match model {
        ModelName::Lru => vec![Box::new(Lru::new(&ask.sizes))],
        ModelName::Arc => each(&|size| Box::new(arc::Arc::new(size))),
        ModelName::Openzfs => each(&|size| Box::new(OpenZfs::new(options(ask, recordsize, size)))),
    }
}

fn options(ask: &Ask, recordsize: Option<u64>, size: u64) -> Options {
    let mut options = Options::new(size, recordsize.unwrap_or(LARGEST_RECORD) as u32);
    options.offsets = ask.unit != Unit::Objects;
    if !ask.fine_times {
        // Nothing is known of how close two uses are.
        options.mintime_ms = 0;
    }
    options
}

/// What a record takes once it is compressed: rounded up to whole sectors, and as it is if that is no less.
fn compressed(ratio: f64, sector: u32) -> Sizes {
    Box::new(move |_, _, bytes| {
        let packed = (f64::from(bytes) / ratio).ceil() as u32;
        packed.max(1).next_multiple_of(sector).min(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_records_take_whole_sectors_and_never_more() {
        let at = |ratio, sector, bytes| compressed(ratio, sector)(0, 0, bytes);
        assert_eq!(at(1.5, 4096, 8192), 8192);
        assert_eq!(at(1.5, 512, 8192), 5632);
        assert_eq!(at(3.0, 4096, 131_072), 45_056);
        assert_eq!(at(1000.0, 4096, 512), 512);
    }
}
