//! Computes the space of one stretch of a file under one recordsize and codec, for every geometry, and measures the
//! codec's speed.
//!
//! The last write of a file determines its block size: a file of at most one record has one block of its length rounded
//! up to 512 bytes; any longer file has blocks of the recordsize, with the last one padded with zeros.

use std::time::Instant;

use poolwright_openzfs::codec::{Codec, EMBEDDED_BYTES, Stored};
use poolwright_openzfs::{Engine, Geometry};

use crate::Result;
use crate::input::Entry;
use crate::options::Grid;

/// One record in this many (by compressed bytes) is also decompressed and timed, which slows the codecs down only
/// slightly.
const DECOMPRESS_ONE_IN: u64 = 96;

/// Returns how many bytes more than they use codecs require when they check for space. A compressed size this close to
/// a geometry's limit is compressed again under that limit.
fn margin(limit: usize) -> usize {
    64 + limit / 128
}

/// Returns the maximum compressed length of a record that the engine accepts (`zio_get_compression_max_size`), in
/// bytes.
fn limit(name: &str, len: usize, sector: usize) -> usize {
    let eighth_saved = len - len / 8;
    if name == "zle" {
        return eighth_saved;
    }
    let whole = eighth_saved - eighth_saved % sector;
    if whole < sector { EMBEDDED_BYTES } else { whole }
}

/// Returns the block length in bytes of a file's records.
pub(crate) fn block_len(file_len: u64, recordsize: u64) -> u64 {
    if file_len <= recordsize { file_len.next_multiple_of(512) } else { recordsize }
}

/// The bytes and time of the codec calls of a pair (recordsize × codec).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speed {
    pub compress_bytes: u64,
    pub compress_ns: u64,
    pub decompress_bytes: u64,
    pub decompress_ns: u64,
}

impl Speed {
    pub(crate) fn add(&mut self, other: &Speed) {
        self.compress_bytes += other.compress_bytes;
        self.compress_ns += other.compress_ns;
        self.decompress_bytes += other.decompress_bytes;
        self.decompress_ns += other.decompress_ns;
    }
}

/// A record's length after the codec, before rounding: 0 for a hole, the record's own length if it is stored
/// uncompressed.
pub(crate) type Packed = u32;
/// Stands for the length of a record of zeros under `off`, which is stored uncompressed.
pub(crate) const ZEROS: Packed = Packed::MAX;

/// Bytes of a file. They start at a multiple of every recordsize.
#[derive(Clone, Copy)]
pub(crate) struct Stretch<'a> {
    pub file: &'a Entry,
    /// Offset in the file.
    pub start: u64,
    /// The bytes, and zeros behind them up to the next multiple of every recordsize.
    pub bytes: &'a [u8],
    /// The number of bytes of the file.
    pub len: usize,
}

impl<'a> Stretch<'a> {
    /// The records that contain any data, by number. The others are holes.
    pub(crate) fn records(self, recordsize: u64) -> impl Iterator<Item = (u64, &'a [u8])> {
        let block = block_len(self.file.len, recordsize) as usize;
        let numbered = (self.start / recordsize..).zip((0..self.len).step_by(block));
        numbered.filter_map(move |(number, at)| {
            let start = self.start + at as u64;
            let is_data = self.file.data.overlap(start, start + block as u64);
            is_data.then(|| (number, &self.bytes[at..at + block]))
        })
    }
}

/// The codecs of one thread.
pub(crate) struct CodecRunner {
    codecs: Vec<Codec>,
    names: Vec<String>,
    geometries: Vec<Geometry>,
    /// The geometries by sector size, smallest first; the codec's limit decreases in this order.
    order: Vec<usize>,
    scratch: Vec<u8>,
    /// The measured speed of each pair.
    pub speed: Vec<Speed>,
    ncodecs: usize,
    undone: Vec<u64>,
}

impl CodecRunner {
    pub(crate) fn new(engine: Engine, grid: &Grid) -> CodecRunner {
        let max = grid.max_recordsize() as usize;
        let geometries: Vec<Geometry> = grid.geometries.iter().map(|(_, g)| *g).collect();
        let mut order: Vec<usize> = (0..geometries.len()).collect();
        order.sort_by_key(|g| geometries[*g].ashift);
        CodecRunner {
            codecs: grid.codecs.iter().map(|c| Codec::new(engine, c, max)).collect(),
            names: grid.codecs.iter().map(|c| c.name().to_owned()).collect(),
            geometries,
            order,
            scratch: vec![0; max],
            speed: vec![Speed::default(); grid.pairs()],
            ncodecs: grid.codecs.len(),
            undone: vec![0; grid.pairs()],
        }
    }

    /// Adds the space of the records of a stretch to `asize` (one value per geometry). `packed` receives the number and the
    /// length of each record that is not a hole.
    pub(crate) fn run(
        &mut self,
        (r, recordsize): (usize, u64),
        c: usize,
        stretch: Stretch<'_>,
        asize: &mut [u64],
        mut packed: impl FnMut(u64, Packed),
    ) -> Result<()> {
        let pair = r * self.ncodecs + c;
        let began = Instant::now();
        let mut compressible: Option<&[u8]> = None;
        let mut bytes = 0;
        for (number, record) in stretch.records(recordsize) {
            let n = self.one(c, record, asize)?;
            packed(number, n as Packed);
            if n != 0 && n < record.len() {
                compressible = Some(record);
            }
            bytes += record.len() as u64;
        }
        let speed = &mut self.speed[pair];
        speed.compress_ns += began.elapsed().as_nanos() as u64;
        speed.compress_bytes += bytes;
        self.undone[pair] += bytes;
        if let Some(record) = compressible.filter(|r| self.undone[pair] >= DECOMPRESS_ONE_IN * r.len() as u64)
        {
            self.undone[pair] = 0;
            self.unpack(pair, c, record)?;
        }
        Ok(())
    }

    /// Times the decompression of a record that is known to compress.
    fn unpack(&mut self, pair: usize, c: usize, record: &[u8]) -> Result<()> {
        let codec = &mut self.codecs[c];
        codec.store(record, &self.geometries[self.order[0]])?;
        let began = Instant::now();
        codec.load(codec.compressed(), &mut self.scratch[..record.len()])?;
        let speed = &mut self.speed[pair];
        speed.decompress_ns += began.elapsed().as_nanos() as u64;
        speed.decompress_bytes += record.len() as u64;
        Ok(())
    }

    /// Compresses a record once, and again for each geometry whose smaller limit could change the result.
    fn one(&mut self, c: usize, record: &[u8], asize: &mut [u64]) -> Result<usize> {
        let len = record.len();
        let codec = &mut self.codecs[c];
        let name = self.names[c].as_str();
        let first = self.geometries[self.order[0]];
        // Reached with `off` only if records of zeros are holes, which they are under every other codec.
        let is_hole = name == "off" && record.iter().all(|byte| *byte == 0);
        let stored = if is_hole { Stored::Hole } else { codec.store(record, &first)? };
        let size = match stored {
            Stored::Hole => return Ok(0),
            _ if codec.compressed().is_empty() => len,
            _ => codec.compressed().len(),
        };
        let widest = limit(name, len, first.sector() as usize);
        for &g in &self.order {
            let geometry = &self.geometries[g];
            let room = limit(name, len, geometry.sector() as usize);
            let here = if room == widest || size == len {
                finish(size, len, geometry)
            } else if size > room {
                Stored::Raw(len)
            } else if size + margin(room) > room || gives_up_early(name, len) {
                codec.store(record, geometry)?
            } else {
                finish(size, len, geometry)
            };
            asize[g] += here.asize(geometry);
        }
        Ok(size)
    }
}

/// Whether a codec may stop early: zstd-3 and higher first probe records of 128K and more with faster codecs under
/// the same limit.
fn gives_up_early(name: &str, len: usize) -> bool {
    len >= 128 << 10 && name.starts_with("zstd") && !name.starts_with("zstd-fast")
}

/// Returns the stored form of a record of `len` bytes that a codec compressed to `size`.
fn finish(size: usize, len: usize, geometry: &Geometry) -> Stored {
    let rounded = size.next_multiple_of(geometry.sector() as usize);
    match size {
        0 => Stored::Hole,
        _ if size >= len => Stored::Raw(len),
        _ if size <= EMBEDDED_BYTES => Stored::Embedded(size),
        _ if rounded >= len => Stored::Raw(len),
        _ => Stored::Compressed(rounded),
    }
}

/// Returns the stored form of a record from a length reported by [`CodecRunner::run`].
pub(crate) fn stored(packed: Packed, len: u64, codec: &str, geometry: &Geometry) -> Stored {
    let (size, len) = (packed as usize, len as usize);
    if size > limit(codec, len, geometry.sector() as usize) && codec != "off" {
        return Stored::Raw(len);
    }
    finish(size, len, geometry)
}
