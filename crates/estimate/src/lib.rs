//! Estimates the space of a set of files on OpenZFS under each recordsize, compression, ashift and vdev layout, and the
//! speed of the codecs on their data.
//!
//! [`estimate`] runs the engine's own codecs on the files' data. A full estimate gives level-0 `asize` to the byte. A sample draws offsets
//! with probability proportional to bytes, the same offsets for every setting, and gives a 95 % interval. The space is that of the files
//! after they are rewritten in order, as a copy or a restore does:
//!
//! - a file of at most one record has one block of its length rounded up to 512 bytes; a longer one has blocks of the
//!   recordsize, with the last one padded with zeros;
//! - under any codec, a record of zeros is a hole; under `off` it is stored, unless the file has a hole there, which is
//!   assumed to be kept (`cp --sparse=never` would store it);
//! - `copies=1`, `redundant_metadata=all`, no deduplication, no encryption.

mod concatenation;
mod data_ranges;
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
pub use options::{Layout, Options, nominal_speed};
pub use result::{Cell, Ended, Estimate, Method, Progress};
pub use sample::first_pass_s;

use indirect::Maker;
use options::Grid;
use sample::Outcome;
use source::Source;

/// Estimates `input` under every setting of `options`. It calls `progress` several times a second with the table so
/// far, and starts the engine in this process if it is not running.
///
/// # Errors
///
/// Returns an error if an option is invalid, if the engine fails, if too many files cannot be read, or if the estimate
/// is cancelled before the first table is complete.
pub fn estimate(
    input: &Input,
    options: &Options,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Estimate> {
    let began = Instant::now();
    // The codecs do not use the ARC. An engine that is already running keeps its limits.
    let engine = match Engine::running() {
        Some(engine) => engine,
        None => Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() })?,
    };
    let grid = Grid::new(options, input.has_devices())?;
    let source = Source::new(input, options.rate);
    let mut full = options.full || source.data_bytes() <= options.exact_below;
    let mut found = None;
    if !full {
        match sample::run(engine, &source, &grid, options, began, progress)? {
            Outcome::Measurement(sampled) => found = Some(*sampled),
            Outcome::TakeAll => full = true,
        }
    }
    let found = match found {
        Some(found) => found,
        None => full::run(engine, &source, &grid, options, began, progress)?,
    };
    let logical = source.logical_bytes();
    let mut cells = result::cells(&grid, logical, &found.spaces, &found.speed);
    result::add_indirect(&grid, &source, &found.records, &mut Maker::new(engine)?, &mut cells)?;
    Ok(Estimate {
        files: source.files().count() as u64,
        logical_bytes: logical,
        data_bytes: source.data_bytes(),
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
