//! The accesses of a comparison: page traces mapped to a file, and generated ones.

use std::io::{BufWriter, Read, Write};
use std::path::Path;

use anyhow::Result;
use poolwright_mrc::Kind;

/// Bytes of a page of a page trace in the replayed file, for all recordsizes: a typical database page.
pub const PAGE: u64 = 8 << 10;

/// A read or write of some bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    pub file: u32,
    pub offset: u64,
    pub len: u32,
    pub write: bool,
}

impl Op {
    /// The kind of the access to a record that it touches.
    pub fn kind(&self, record: u64, recordsize: u64) -> Kind {
        let (start, end) = (record * recordsize, (record + 1) * recordsize);
        match self.write {
            false => Kind::Read,
            true if self.offset <= start && self.offset + u64::from(self.len) >= end => Kind::Write,
            true => Kind::Update,
        }
    }

    /// The data of a write: that of the file, so that each record keeps its compressed size.
    pub fn content(&self, recordsize: u64, out: &mut [u8]) {
        let mut record = vec![0; recordsize as usize];
        let mut at = self.offset;
        while at < self.offset + out.len() as u64 {
            fill_record(u64::from(self.file), at / recordsize, &mut record);
            let from = (at % recordsize) as usize;
            let to = (at - self.offset) as usize;
            let n = (record.len() - from).min(out.len() - to);
            out[to..to + n].copy_from_slice(&record[from..from + n]);
            at += n as u64;
        }
    }
}

/// The content of a record, by its position: random bytes followed by zeros, so that lz4 keeps a known share.
pub fn fill_record(file: u64, index: u64, record: &mut [u8]) {
    let mut x = (file << 40 ^ index).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let part = record.len() / 20 * [5, 8, 11, 15][(x >> 61) as usize % 4];
    for word in record[..part].chunks_mut(8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        word.copy_from_slice(&x.to_le_bytes()[..word.len()]);
    }
    record[part..].fill(0);
}

/// Operations, and the lengths of their files.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    pub ops: Vec<Op>,
    pub files: Vec<u64>,
}

impl Ops {
    /// One file of pages that are read.
    pub fn of_pages(pages: &[u64]) -> Ops {
        let ops =
            pages.iter().map(|page| Op { file: 0, offset: page * PAGE, len: PAGE as u32, write: false });
        let ops: Vec<Op> = ops.collect();
        let end = ops.iter().map(|op| op.offset + PAGE).max().unwrap_or(PAGE);
        Ops { ops, files: vec![end] }
    }
}

/// Random numbers that are the same in each run (xorshift64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Queries, most of them for few pages (the share of the requests for pages below a rank grows with the cube root of
/// the rank), and scans of long runs between them. With `updates` a third of the queries write.
pub fn scans(limit: usize, pages: u64, updates: bool) -> Ops {
    let mut random = Random(0x5eed_5eed);
    let mut list = Vec::with_capacity(limit);
    while list.len() < limit {
        for _ in 0..4000 {
            let position = random.below(1 << 20) as f64 / (1 << 20) as f64;
            let rank = (position.powi(3) * pages as f64) as u64;
            // Neighbours in rank are far apart in the file, because 7919 is prime.
            list.push(rank * 7919 % pages);
        }
        let (from, length) = (random.below(pages), 2000 + random.below(4000));
        list.extend((from..from + length).map(|page| page % pages));
    }
    list.truncate(limit);
    let mut ops = Ops::of_pages(&list);
    if updates {
        for (n, op) in ops.ops.iter_mut().enumerate() {
            // A scan reads the next page.
            op.write = n > 0 && op.offset != list[n - 1] * PAGE + PAGE && random.below(3) == 0;
        }
    }
    ops
}

pub fn save(path: &Path, ops: &[Op]) -> Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    for op in ops {
        out.write_all(&op.file.to_le_bytes())?;
        out.write_all(&op.len.to_le_bytes())?;
        out.write_all(&(op.offset | u64::from(op.write) << 63).to_le_bytes())?;
    }
    Ok(out.flush()?)
}

pub fn load(path: &Path) -> Result<Vec<Op>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.read_to_end(&mut bytes)?;
    let u32_at = |b: &[u8], at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    let op = |b: &[u8]| {
        let position = u64::from(u32_at(b, 8)) | u64::from(u32_at(b, 12)) << 32;
        Op {
            file: u32_at(b, 0),
            len: u32_at(b, 4),
            offset: position & !(1 << 63),
            write: position >> 63 == 1,
        }
    };
    Ok(bytes.chunks_exact(16).map(op).collect())
}

pub fn load_times(path: &Path) -> Result<Vec<u32>> {
    let bytes = std::fs::read(path)?;
    Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}
