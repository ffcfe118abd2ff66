//! Counts distinct blocks in bounded memory.
//!
//! A block is kept if its hash is below a limit. When more than [`CAPACITY`] blocks are kept, the limit is halved and
//! the blocks above it are dropped. The kept blocks are thus a uniform sample of all touched blocks, and their number
//! divided by the sampling rate estimates the total (the spatial sampling of SHARDS: Waldspurger et al., FAST 2015).
//! The count is exact up to `CAPACITY` blocks; above, one standard error of the total is at most `1/sqrt(CAPACITY/2)`,
//! 0.2 %.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The maximum number of kept blocks: 2 GiB of 4K blocks are counted exactly.
const CAPACITY: usize = 1 << 19;
/// The maximum length of an operation in bytes (above Linux's `MAX_RW_COUNT`); longer lengths in a foreign trace are
/// cut.
const LONGEST: u64 = 1 << 31;

const READ: u8 = 1;
const WRITTEN: u8 = 2;

/// The distinct blocks of one size.
pub(crate) struct WorkingSet {
    block: u64,
    /// Blocks whose hash is at or above the limit are dropped; `None` while all are kept.
    limit: Option<u64>,
    kept: HashMap<u64, (u32, u8), BuildHasherDefault<Identity>>,
}

/// The distinct blocks of one file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Touched {
    pub read: u64,
    pub written: u64,
    pub any: u64,
}

impl WorkingSet {
    pub fn new(block: u64) -> WorkingSet {
        WorkingSet { block, limit: None, kept: HashMap::default() }
    }

    pub fn block(&self) -> u64 {
        self.block
    }

    pub fn touch(&mut self, file: u32, offset: u64, len: u64, write: bool) {
        if len == 0 {
            return;
        }
        let last = offset.saturating_add(len.min(LONGEST) - 1) / self.block;
        for block in offset / self.block..=last {
            let hash = mix(block ^ u64::from(file).rotate_left(40));
            if self.limit.is_some_and(|limit| hash >= limit) {
                continue;
            }
            self.kept.entry(hash).or_insert((file, 0)).1 |= if write { WRITTEN } else { READ };
            if self.kept.len() > CAPACITY {
                let limit = self.limit.map_or(1 << 63, |limit| limit / 2);
                self.kept.retain(|hash, _| *hash < limit);
                self.limit = Some(limit);
            }
        }
    }

    /// Returns the share of blocks that were counted; 1 if the counts are exact.
    pub fn rate(&self) -> f64 {
        self.limit.map_or(1.0, |limit| limit as f64 / 2f64.powi(64))
    }

    /// Returns the estimated distinct blocks of each of the files `0..files`.
    pub fn per_file(&self, files: usize) -> Vec<Touched> {
        let mut counts = vec![Touched::default(); files];
        for (file, how) in self.kept.values() {
            let Some(count) = counts.get_mut(*file as usize) else { continue };
            count.read += u64::from(how & READ != 0);
            count.written += u64::from(how & WRITTEN != 0);
            count.any += 1;
        }
        let scale = |n: u64| (n as f64 / self.rate()).round() as u64;
        counts
            .iter()
            .map(|c| Touched { read: scale(c.read), written: scale(c.written), any: scale(c.any) })
            .collect()
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): a bijection, so distinct blocks stay distinct.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A hasher for keys that are already hashes.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }
    fn write_u64(&mut self, hash: u64) {
        // The map takes its tag from the top bits, which sampling keeps at zero.
        self.0 = hash.rotate_left(32) ^ hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sets_are_exact() {
        let mut set = WorkingSet::new(4096);
        for round in 0..3 {
            for block in 0..1000 {
                set.touch(block as u32 % 2, block * 4096 + 100, 4096, round == 1); // crosses the boundary of two blocks
            }
        }
        set.touch(1, 0, 0, true);
        assert_eq!(set.rate(), 1.0);
        let files = set.per_file(2);
        assert_eq!((files[0].any, files[1].any), (1000, 1000));
        assert_eq!((files[0].read, files[0].written), (1000, 1000));
    }

    #[test]
    fn large_sets_are_estimated() {
        let mut set = WorkingSet::new(4096);
        let blocks = 6 * CAPACITY as u64;
        set.touch(0, 0, 4096, true);
        for block in 0..blocks {
            set.touch(7, block * 4096, 4096, false);
        }
        assert!(set.rate() < 0.3 && set.kept.len() <= CAPACITY);
        let found = set.per_file(8)[7].any as f64;
        assert!((found / blocks as f64 - 1.0).abs() < 0.01, "{found} of {blocks}");
    }

    #[test]
    fn absurd_lengths_end() {
        let mut set = WorkingSet::new(131072);
        set.touch(0, u64::MAX - 5, u64::MAX, true);
        set.touch(0, 0, u64::MAX, true);
        assert_eq!(set.per_file(1)[0].written, LONGEST / 131072 + 1);
    }
}
