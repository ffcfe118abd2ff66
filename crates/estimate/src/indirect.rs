//! The space of indirect blocks, above the level-0 records.
//!
//! An indirect block has 128K and contains 1024 block pointers. It is metadata: compressed with lz4 regardless of the
//! dataset's `compression`, and stored twice (`redundant_metadata=all`). How well block pointers compress depends on
//! the sizes in them. Therefore, synthetic pointers for the measured records, in the layout of `blkptr_t`, are
//! compressed with the engine's lz4. Their checksums are synthesized as if all records differed, except for records of
//! zeros under `off`, whose checksum is 0. If the lengths of all records of a file are known, each of its lowest indirect blocks is
//! made from its own records; otherwise, one modelled block represents all of them.

use std::collections::BTreeMap;

use poolwright_openzfs::codec::{Codec, Stored};
use poolwright_openzfs::{Compression, Engine, Geometry};
use rand::{Rng as _, RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Result;
use crate::input::Entry;
use crate::record::{Packed, ZEROS, stored};

const POINTER: usize = 128;
const POINTERS: u64 = 1024;
/// Offset of the checksum in a pointer.
const CHECKSUM: usize = 96;
const BLOCK: usize = POINTER * POINTERS as usize;
/// Copies of each metadata block under `redundant_metadata=all`.
const COPIES: u64 = 2;

/// Compressed sizes in bytes of indirect blocks with 1, 2, 4, … 1024 pointers of one cell.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    sizes: [f64; 11],
    geometry: Geometry,
}

/// A setting of a dataset.
pub(crate) struct RecordSetting<'a> {
    pub recordsize: u64,
    pub codec: &'a str,
    pub geometry: &'a Geometry,
}

/// The measured records of a pair (recordsize × codec).
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownRecords {
    /// Compressed lengths of some records, in the order of the files.
    pub some: Vec<Packed>,
    /// Compressed lengths of all records of a file, by the file's number. Files for which they were not kept are missing.
    pub files: BTreeMap<usize, LowestBlocks>,
}

/// The lowest indirect blocks of a file, by number: the compressed lengths of the records that each points to. Blocks that point to
/// holes only are left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct LowestBlocks(BTreeMap<u64, Vec<Packed>>);

impl LowestBlocks {
    /// Adds the next record of the file. Records that are left out are holes.
    pub(crate) fn push(&mut self, number: u64, packed: Packed) {
        let block = self.0.entry(number / POINTERS).or_default();
        block.resize((number % POINTERS) as usize, 0);
        block.push(packed);
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Builds the models of one estimate.
pub(crate) struct Maker {
    codec: Codec,
    block: Vec<u8>,
}

impl Maker {
    pub(crate) fn new(engine: Engine) -> Result<Maker> {
        Ok(Maker { codec: Codec::new(engine, &Compression::parse("lz4")?, BLOCK), block: vec![0; BLOCK] })
    }

    /// Builds a model from the compressed lengths of records, in the order of the file. `packed` must not be empty.
    pub(crate) fn model(&mut self, packed: &[Packed], setting: &RecordSetting<'_>) -> Result<Model> {
        let mut sizes = [0.0; 11];
        for (power, size) in sizes.iter_mut().enumerate() {
            let n = 1 << power;
            // Parts of a file differ, so average over stretches from all of the measured records.
            let tries = packed.len().div_ceil(n).min(8);
            for t in 0..tries {
                let from = t * packed.len() / tries;
                let records = packed.iter().cycle().skip(from).take(n).copied();
                *size += self.compressed(records, setting)? as f64 / tries as f64;
            }
        }
        Ok(Model { sizes, geometry: *setting.geometry })
    }

    /// Returns the allocated bytes of a file's indirect blocks from the compressed lengths of all of its records. The levels above the lowest
    /// one are those of the model.
    pub(crate) fn file(
        &mut self,
        entry: &Entry,
        blocks: &LowestBlocks,
        setting: &RecordSetting<'_>,
        model: &Model,
    ) -> Result<u64> {
        let records = entry.len.div_ceil(setting.recordsize);
        if records <= 1 {
            return Ok(0);
        }
        let (mut sum, mut above) = (0, BTreeMap::new());
        for (number, block) in &blocks.0 {
            let size = self.compressed(block.iter().copied(), setting)?;
            sum += allocated(size as f64, setting.geometry);
            if size > 0 {
                *above.entry(number / POINTERS).or_default() += 1;
            }
        }
        Ok(sum + model.levels(above, records.div_ceil(POINTERS)))
    }

    fn compressed(
        &mut self,
        records: impl Iterator<Item = Packed>,
        setting: &RecordSetting<'_>,
    ) -> Result<usize> {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let mut offset = rng.random_range(1u64 << 21..1 << 31);
        self.block.fill(0);
        for (pointer, packed) in self.block.chunks_exact_mut(POINTER).zip(records) {
            let kind = stored(packed, setting.recordsize, setting.codec, setting.geometry);
            fill(pointer, kind, setting, &mut offset, &mut rng);
            if packed == ZEROS {
                pointer[CHECKSUM..].fill(0);
            }
        }
        self.codec.store(&self.block, &Geometry::plain(9))?;
        Ok(if self.codec.compressed().is_empty() { 0 } else { self.codec.compressed().len() })
    }
}

/// Writes one `blkptr_t` (`sys/spa.h`): three addresses of 16 bytes, properties, padding, births, fill, checksum.
fn fill(
    pointer: &mut [u8],
    kind: Stored,
    setting: &RecordSetting<'_>,
    offset: &mut u64,
    rng: &mut ChaCha8Rng,
) {
    let (psize, compressed) = match kind {
        Stored::Hole => return,
        Stored::Embedded(n) => {
            rng.fill_bytes(&mut pointer[..n]);
            pointer[48..56].copy_from_slice(&0x8000_1380_0000_0000u64.to_le_bytes());
            pointer[80..88].copy_from_slice(&4242u64.to_le_bytes());
            return;
        }
        Stored::Compressed(n) => (n as u64, 15u64),
        Stored::Raw(n) => (n as u64, 2),
    };
    let mut word = |at: usize, value: u64| pointer[at..at + 8].copy_from_slice(&value.to_le_bytes());
    let asize = setting.geometry.asize(psize);
    word(0, asize >> 9);
    word(8, *offset >> 9);
    *offset += asize;
    let properties =
        0x8013_0700_0000_0000 | compressed << 32 | ((psize >> 9) - 1) << 16 | ((setting.recordsize >> 9) - 1);
    word(48, properties);
    word(80, 4242);
    word(88, 1);
    // The four sums of fletcher4 grow with the number of 32-bit words; below that size they appear random.
    let words = (psize / 4) as f64;
    for (i, (power, divisor)) in [(1.0, 1.0), (2.0, 2.0), (3.0, 6.0), (4.0, 24.0)].into_iter().enumerate() {
        let bits = (31.0 + f64::log2(words.powf(power) / divisor)).clamp(8.0, 64.0) as u32;
        word(CHECKSUM + 8 * i, rng.random::<u64>() >> (64 - bits));
    }
}

/// The allocated bytes of an indirect block, from its compressed size. A block without pointers does not exist.
fn allocated(size: f64, geometry: &Geometry) -> u64 {
    if size == 0.0 {
        return 0;
    }
    let limit = (BLOCK - BLOCK / 8) as f64;
    let psize = if size > limit { BLOCK as u64 } else { size.ceil() as u64 };
    COPIES * geometry.asize(psize.next_multiple_of(geometry.sector()))
}

impl Model {
    fn one(&self, pointers: u64) -> u64 {
        if pointers == 0 {
            return 0;
        }
        let power = (pointers as f64).log2().clamp(0.0, 10.0);
        let (low, part) = (power.floor() as usize, power.fract());
        let high = (low + 1).min(10);
        // Interpolate linearly in the number of pointers between two powers of two.
        let part = 2f64.powf(part) - 1.0;
        let size = self.sizes[low] + (self.sizes[high] - self.sizes[low]) * part;
        allocated(size, &self.geometry)
    }

    /// Returns the allocated bytes of all indirect blocks above `records` data blocks. A dnode contains one pointer
    /// itself, so a file of one block has no indirect blocks.
    fn tree(&self, records: u64) -> u64 {
        let (mut below, mut sum) = (records, 0);
        while below > 1 {
            let (whole, rest) = (below / POINTERS, below % POINTERS);
            sum += whole * self.one(POINTERS) + self.one(rest);
            below = below.div_ceil(POINTERS);
        }
        sum
    }

    /// Returns the allocated bytes of a file's indirect blocks.
    pub(crate) fn file(&self, entry: &Entry, recordsize: u64) -> u64 {
        let records = entry.len.div_ceil(recordsize);
        if records <= 1 {
            return 0;
        }
        let ranges = entry.data.units(recordsize);
        if ranges.len() == 1 && ranges[0] == (0..records) {
            return self.tree(records);
        }
        // The number of pointers in each block of the lowest level. Blocks without any pointer do not exist.
        let mut pointers: BTreeMap<u64, u64> = BTreeMap::new();
        for range in ranges {
            for block in range.start / POINTERS..range.end.div_ceil(POINTERS) {
                let inside = range.end.min((block + 1) * POINTERS) - range.start.max(block * POINTERS);
                *pointers.entry(block).or_default() += inside;
            }
        }
        self.levels(pointers, records)
    }

    /// Returns the allocated bytes of all levels from one of which the number of pointers in each block is known. `longest` is the
    /// number of pointers in a file of that length without holes: it decides the number of levels.
    fn levels(&self, mut pointers: BTreeMap<u64, u64>, mut longest: u64) -> u64 {
        let mut sum = 0;
        while longest > 1 {
            sum += pointers.values().map(|count| self.one(*count)).sum::<u64>();
            let mut above = BTreeMap::new();
            for block in pointers.keys() {
                *above.entry(block / POINTERS).or_default() += 1;
            }
            (pointers, longest) = (above, longest.div_ceil(POINTERS));
        }
        sum
    }
}
