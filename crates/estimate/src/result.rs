//! The result of an estimate.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::Result;
use crate::indirect::{KnownRecords, Maker, RecordSetting};
use crate::input::Skipped;
use crate::options::Grid;
use crate::record::{Packed, Speed};
use crate::source::Source;

/// The method of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// All bytes were read and compressed.
    Full,
    /// Places were sampled.
    Sampled,
}

/// The reason for the end of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All was read, or all intervals are as narrow as required.
    Done,
    /// The limit of time or bytes was reached; some intervals are wider than required.
    Limit,
    /// The estimate was cancelled; the figures are those available at that time.
    Interrupted,
}

/// The figures of one setting. Sizes are in bytes, speeds in MiB of records per second on one core.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Cell {
    /// The dataset's recordsize in bytes.
    pub recordsize: u64,
    /// The compression, as `zfs` spells it.
    pub compression: String,
    /// Sector size as a power of two.
    pub ashift: u32,
    /// The vdev layout: `plain`, `mirror`, `raidz2:6`.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub layout: crate::Layout,
    /// Level-0 `asize` of the whole input in bytes, as `zdb -bbb` counts it.
    pub allocated_bytes: u64,
    /// `logical_bytes / allocated_bytes`; infinite (`null` in JSON) if nothing is allocated.
    #[schemars(with = "Option<f64>")]
    pub ratio: f64,
    /// The 95 % interval of `ratio`; both ends equal `ratio` if the figure is exact. An infinite end is `null` in JSON.
    #[schemars(with = "[Option<f64>; 2]")]
    pub ratio_ci95: [f64; 2],
    /// `allocated_bytes` plus the space of indirect blocks, in bytes.
    pub total_bytes: u64,
    /// Compression speed in MiB/s; `None` for `off` or if nothing has been compressed yet.
    pub compress_mib_s: Option<f64>,
    /// Decompression speed in MiB/s.
    pub decompress_mib_s: Option<f64>,
    /// The number of draws that ran this codec; 0 if the figure is exact.
    pub draws: u64,
}

fn as_text<S: Serializer>(layout: &crate::Layout, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_str(layout)
}

impl Cell {
    /// Returns the larger distance of the interval's ends from the ratio, as a fraction of the ratio.
    pub fn error(&self) -> f64 {
        if self.ratio_ci95 == [self.ratio; 2] {
            return 0.0;
        }
        let [low, high] = self.ratio_ci95;
        let error = ((high - self.ratio) / self.ratio).max((self.ratio - low) / self.ratio);
        if error.is_nan() { f64::INFINITY } else { error }
    }
}

/// Space and speed of every requested setting.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Estimate {
    /// The number of regular files with content.
    pub files: u64,
    /// The sum of their lengths in bytes.
    pub logical_bytes: u64,
    /// The bytes of data in them. The rest are holes, which are not read.
    pub data_bytes: u64,
    /// Bytes read.
    pub sampled_bytes: u64,
    /// The cells: recordsize × compression × layout × ashift.
    pub cells: Vec<Cell>,
    /// The method.
    pub method: Method,
    /// The reason for the end.
    pub ended: Ended,
    /// The seed that reproduces the sampled offsets.
    pub seed: u64,
    /// The number of sampled points; 0 in a full estimate.
    pub places: u64,
    /// The required precision, as a fraction.
    pub within: f64,
    /// The precision of the widest cell, as a fraction; infinite (`null` in JSON) if a cell has no data.
    #[schemars(with = "Option<f64>")]
    pub achieved: f64,
    /// Order-0 entropy of the data read, in bits per byte.
    pub entropy_bits: f64,
    /// Files and directories that could not be read; no other figure includes them.
    pub skipped: Vec<Skipped>,
    /// The number of files that had changed when they were read; their figures mix old and new data.
    pub changed: u64,
    /// The number of sockets, pipes and devices.
    pub special: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    /// The number of compressing threads.
    pub threads: usize,
    /// The version of the engine whose codecs were used.
    pub openzfs: String,
}

impl Estimate {
    /// Returns the cell of a setting, for the first of the layouts.
    pub fn cell(&self, recordsize: u64, compression: &str, ashift: u32) -> Option<&Cell> {
        self.cells_of(recordsize, compression, ashift).next()
    }

    /// Returns the cells of a setting, one for each layout, in the order of the options.
    pub fn cells_of(&self, recordsize: u64, compression: &str, ashift: u32) -> impl Iterator<Item = &Cell> {
        let is_of =
            move |c: &&Cell| (c.recordsize, c.ashift) == (recordsize, ashift) && c.compression == compression;
        self.cells.iter().filter(is_of)
    }
}

/// The progress of an estimate, reported at intervals of at least a tenth of a second.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Bytes read so far.
    pub read_bytes: u64,
    /// The input's bytes of data, without holes; a full estimate ends when `read_bytes` reaches it.
    pub data_bytes: u64,
    /// The method.
    pub method: Method,
    /// The widest interval so far, as a fraction; infinite until every cell has data.
    pub achieved: f64,
    /// Wall time so far in seconds.
    pub seconds: f64,
    /// The table so far, without indirect blocks; empty until the first one is complete.
    pub cells: &'a [Cell],
}

/// The space of one cell before its conversion to a [`Cell`].
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

/// Converts spaces to cells; `logical` is the number of bytes to which `spaces` refer.
pub(crate) fn cells(grid: &Grid, logical: u64, spaces: &[Space], speeds: &[Speed]) -> Vec<Cell> {
    let ratio = |allocated: f64| logical as f64 / allocated.max(0.0);
    let mut out = Vec::with_capacity(spaces.len());
    for (r, recordsize) in grid.recordsizes.iter().enumerate() {
        for (c, codec) in grid.codecs.iter().enumerate() {
            let speed = speeds[grid.pair(r, c)];
            let is_off = codec.name() == "off";
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
                    compress_mib_s: mib_s(speed.compress_bytes, speed.compress_ns, is_off),
                    decompress_mib_s: mib_s(speed.decompress_bytes, speed.decompress_ns, is_off),
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

/// Up to this number of indirect blocks of a pair are made from the records that they point to. Above it, a model is used, whose errors
/// are small in relation to so many.
const EXACT_BLOCKS: u64 = 256;

/// Adds the space of indirect blocks, from the compressed lengths of records.
pub(crate) fn add_indirect(
    grid: &Grid,
    source: &Source<'_>,
    known: &[KnownRecords],
    maker: &mut Maker,
    cells: &mut [Cell],
) -> Result<()> {
    for (i, cell) in cells.iter_mut().enumerate() {
        let pair = i / grid.geometries.len();
        let geometry = &grid.geometries[i % grid.geometries.len()].1;
        let raw = [cell.recordsize as Packed];
        let KnownRecords { some, files } = &known[pair];
        let some: &[Packed] = if some.is_empty() { &raw } else { some };
        let setting = RecordSetting { recordsize: cell.recordsize, codec: &cell.compression, geometry };
        let model = maker.model(some, &setting)?;
        let has_indirect = |file: &usize| source.input.files[*file].len > cell.recordsize;
        let indirect = files.iter().filter(|(file, _)| has_indirect(file)).map(|(_, blocks)| blocks.len());
        let is_exact = indirect.sum::<u64>() <= EXACT_BLOCKS;
        cell.total_bytes = cell.allocated_bytes;
        for (number, file) in source.files() {
            cell.total_bytes += match files.get(&number).filter(|_| is_exact) {
                Some(blocks) => maker.file(file, blocks, &setting, &model)?,
                None => model.file(file, cell.recordsize),
            };
        }
    }
    Ok(())
}
