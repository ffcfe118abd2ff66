//! What a set of files would take on OpenZFS under each recordsize, compression, ashift and vdev layout, and how fast
//! the codecs are on them.
//!
//! [`estimate`] runs the engine's own codecs on the files' own bytes. In full it gives level-0 `asize` to the byte;
//! sampled, it draws places with probability proportional to bytes, the same for every setting, and gives a 95 %
//! interval. The space is that of the files written anew in order, as a copy or a restore does:
//!
//! - a file of at most one record has one block of its length rounded up to 512 bytes, a longer one has blocks of the
//!   recordsize and its last one is filled up with zeros;
//! - under any codec a record of zeros is a hole; under `off` it is stored, unless the file as it stands has a hole
//!   there, which is taken to be kept (`cp --sparse=never` would store it);
//! - `copies=1`, `redundant_metadata=all`, no deduplication, no encryption.

mod concatenation;
mod draws;
mod error;
mod full;
mod indirect;
mod input;
mod measurement;
pub mod options;
mod record;
mod result;
mod sample;
mod source;
mod statistics;

use std::time::Instant;

use poolwright_openzfs::{Config, Engine};

pub use error::{Error, Result};
pub use input::{Input, Skipped};
pub use options::{Layout, Options};
pub use result::{Cell, Ended, Estimate, Method, Progress};

use indirect::Maker;
use options::Grid;
use sample::Outcome;
use source::Source;

/// Estimates `input` under every setting of `options`; `progress` is called some times a second with the table so far.
///
/// Starts the engine in this process if it does not run yet.
pub fn estimate(
    input: &Input,
    options: &Options,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Estimate> {
    let began = Instant::now();
    // the codecs need none of the ARC; a running engine keeps its limits
    let engine = match Engine::running() {
        Some(engine) => engine,
        None => Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() })?,
    };
    let grid = Grid::new(options)?;
    let source = Source::new(input, options.rate);
    let mut logical = input.logical_bytes();
    let mut full = options.full || logical <= options.exact_below;
    let mut found = None;
    if !full {
        match sample::run(engine, &source, &grid, options, began, progress)? {
            Outcome::Measurement(sampled) => found = Some(*sampled),
            Outcome::TakeAll => full = true,
        }
    }
    let found = match found {
        Some(found) => found,
        None => {
            let (sums, whole) = full::run(engine, &source, &grid, options, began, progress)?;
            logical -= sums.lost;
            sums.found(&full::off_spaces(input, &grid), logical, whole)
        }
    };
    let mut cells = result::cells(&grid, logical, &found.spaces, &found.speed);
    result::add_indirect(&grid, &source, &found.packed, &mut Maker::new(engine)?, &mut cells)?;
    Ok(Estimate {
        files: input.len() as u64,
        logical_bytes: logical,
        sampled_bytes: source.bytes_read(),
        achieved: cells.iter().map(Cell::error).fold(0.0, f64::max),
        cells,
        method: if full { Method::Full } else { Method::Sampled },
        ended: found.ended,
        seed: options.seed,
        places: found.places,
        within: options.within,
        entropy_bits: source::entropy(&found.histogram),
        skipped: source.skipped(),
        changed: source.changed(),
        special: input.special,
        seconds: began.elapsed().as_secs_f64(),
        threads: options.threads(),
        openzfs: Engine::version(),
    })
}
