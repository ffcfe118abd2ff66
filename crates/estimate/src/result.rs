//! What an estimate says.

use serde::{Serialize, Serializer};

use crate::Result;
use crate::indirect::Maker;
use crate::input::Skipped;
use crate::options::Grid;
use crate::record::{Packed, Speed};
use crate::source::Source;

/// How the figures came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Every byte was read and compressed.
    Full,
    /// Places were drawn.
    Sampled,
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All was read, or all intervals are as narrow as asked for.
    Done,
    /// At the limit of time or bytes; some intervals are wider than asked for.
    Limit,
    /// Cancelled; the figures are those that were there.
    Interrupted,
}

/// One setting. Sizes are bytes, speeds MiB of records per second on one core.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The dataset's recordsize.
    pub recordsize: u64,
    /// As `zfs` spells it.
    pub compression: String,
    /// Sector size as a power of two.
    pub ashift: u32,
    /// `plain`, `mirror`, `raidz2:6`.
    #[serde(serialize_with = "as_text")]
    pub layout: crate::Layout,
    /// Level-0 `asize` of the whole input, as `zdb -bbb` counts it.
    pub allocated_bytes: u64,
    /// `logical_bytes / allocated_bytes`; infinite, and `null` in JSON, where nothing is allocated.
    pub ratio: f64,
    /// Its 95 % interval; equal to `ratio` where the figure is exact.
    pub ratio_ci95: [f64; 2],
    /// With indirect blocks.
    pub total_bytes: u64,
    /// Compression; `None` for `off` and where nothing has been compressed yet.
    pub compress_mib_s: Option<f64>,
    /// Decompression.
    pub decompress_mib_s: Option<f64>,
    /// Draws that went through this codec; 0 where the figure is exact.
    pub draws: u64,
}

fn as_text<S: Serializer>(layout: &crate::Layout, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_str(layout)
}

impl Cell {
    /// The larger distance of the interval's ends from the ratio, as a fraction of it.
    pub fn error(&self) -> f64 {
        if self.ratio_ci95 == [self.ratio; 2] {
            return 0.0;
        }
        let [low, high] = self.ratio_ci95;
        let error = ((high - self.ratio) / self.ratio).max((self.ratio - low) / self.ratio);
        if error.is_nan() { f64::INFINITY } else { error }
    }
}

/// Space and speed of every setting that was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// Regular files with content.
    pub files: u64,
    /// Sum of their lengths.
    pub logical_bytes: u64,
    /// Bytes read.
    pub sampled_bytes: u64,
    /// Recordsize × compression × layout × ashift.
    pub cells: Vec<Cell>,
    /// Sampled or full.
    pub method: Method,
    /// Why it ended.
    pub ended: Ended,
    /// Draws the places again.
    pub seed: u64,
    /// Places drawn; 0 in full.
    pub places: u64,
    /// The width asked for, as a fraction.
    pub within: f64,
    /// The widest cell's, as a fraction.
    pub achieved: f64,
    /// Order-0 entropy of what was read, in bits per byte.
    pub entropy_bits: f64,
    /// Files and directories that could not be read; they are in no other figure.
    pub skipped: Vec<Skipped>,
    /// Files that were not the same any more when they were read; their figures mix old and new.
    pub changed: u64,
    /// Sockets, pipes, devices.
    pub special: u64,
    /// Wall time.
    pub seconds: f64,
    /// Threads that compressed.
    pub threads: usize,
    /// Version of the engine whose codecs were used.
    pub openzfs: String,
}

impl Estimate {
    /// The cell of a setting.
    pub fn cell(&self, recordsize: u64, compression: &str, ashift: u32) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|c| (c.recordsize, c.ashift) == (recordsize, ashift) && c.compression == compression)
    }
}

/// How far it has got, at intervals of a tenth of a second or more.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Bytes read so far.
    pub read_bytes: u64,
    /// The input's size; a full estimate is done when `read_bytes` gets there.
    pub logical_bytes: u64,
    /// Sampled or full.
    pub method: Method,
    /// The widest interval so far, as a fraction; infinite while nothing is known of some cell.
    pub achieved: f64,
    /// Wall time so far.
    pub seconds: f64,
    /// The table as far as it is known, without indirect blocks; empty until there is a first one.
    pub cells: &'a [Cell],
}

/// Space of one cell before it is worded as a [`Cell`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub allocated: f64,
    pub low: f64,
    pub high: f64,
    pub draws: u64,
}

impl Space {
    pub(crate) fn exact(allocated: u64) -> Space {
        Space { allocated: allocated as f64, low: allocated as f64, high: allocated as f64, draws: 0 }
    }
}

/// Words the cells; `logical` are the bytes that `spaces` speak of.
pub(crate) fn cells(grid: &Grid, logical: u64, spaces: &[Space], speeds: &[Speed]) -> Vec<Cell> {
    let ratio = |allocated: f64| logical as f64 / allocated.max(0.0);
    let mut out = Vec::with_capacity(spaces.len());
    for (r, recordsize) in grid.recordsizes.iter().enumerate() {
        for (c, codec) in grid.codecs.iter().enumerate() {
            let speed = speeds[grid.pair(r, c)];
            for (g, (layout, geometry)) in grid.geometries.iter().enumerate() {
                let space = spaces[grid.pair(r, c) * grid.geometries.len() + g];
                let allocated = space.allocated.round() as u64;
                out.push(Cell {
                    recordsize: *recordsize,
                    compression: codec.name().to_owned(),
                    ashift: geometry.ashift,
                    layout: *layout,
                    allocated_bytes: allocated,
                    ratio: ratio(space.allocated),
                    ratio_ci95: [ratio(space.high), ratio(space.low)],
                    total_bytes: allocated,
                    compress_mib_s: mib_s(speed.compress_bytes, speed.compress_ns, grid.is_off(c)),
                    decompress_mib_s: mib_s(speed.decompress_bytes, speed.decompress_ns, grid.is_off(c)),
                    draws: space.draws,
                });
            }
        }
    }
    out
}

fn mib_s(bytes: u64, ns: u64, off: bool) -> Option<f64> {
    (!off && ns > 0).then(|| bytes as f64 / (1 << 20) as f64 / (ns as f64 / 1e9))
}

/// Adds the indirect blocks. `packed` holds some records of each pair as the codec left them.
pub(crate) fn add_indirect(
    grid: &Grid,
    source: &Source<'_>,
    packed: &[Vec<Packed>],
    maker: &mut Maker,
    cells: &mut [Cell],
) -> Result<()> {
    for (i, cell) in cells.iter_mut().enumerate() {
        let pair = i / grid.geometries.len();
        let geometry = &grid.geometries[i % grid.geometries.len()].1;
        let raw = [cell.recordsize as Packed];
        let known: &[Packed] =
            if cell.compression == "off" || packed[pair].is_empty() { &raw } else { &packed[pair] };
        let model = maker.model(known, cell.recordsize, &cell.compression, geometry)?;
        let of_file = |file| model.file(file, cell.recordsize);
        cell.total_bytes = cell.allocated_bytes + source.input.files.iter().map(of_file).sum::<u64>();
    }
    Ok(())
}
