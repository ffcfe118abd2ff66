//! Counts distinct blocks in bounded memory ([`DistinctSample`]).

use crate::distinct::{DistinctSample, mix};

/// The maximum number of kept blocks: 2 GiB of 4K blocks are counted exactly. One standard error of a larger total is at
/// most 0.2 %.
const CAPACITY: usize = 1 << 19;
/// The maximum length of an operation in bytes (above Linux's `MAX_RW_COUNT`); longer lengths in a foreign trace are
/// cut.
const LONGEST: u64 = 1 << 31;

/// Added to a block's key, because the hash of 0 is 0 (the increment of SplitMix64).
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

const READ: u8 = 1;
const WRITTEN: u8 = 2;

/// The distinct blocks of one size.
pub(crate) struct WorkingSet {
    block: u64,
    /// The file of each block, and how it was used.
    sample: DistinctSample<(u32, u8)>,
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
        WorkingSet { block, sample: DistinctSample::new(CAPACITY) }
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
            let key = (block ^ u64::from(file).rotate_left(40)).wrapping_add(SALT);
            self.sample.update(mix(key), |(of, how)| {
                *of = file;
                *how |= if write { WRITTEN } else { READ };
            });
        }
    }

    /// Returns the share of blocks that were counted; 1 if the counts are exact.
    pub fn rate(&self) -> f64 {
        self.sample.rate()
    }

    /// Returns the estimated distinct blocks of each of the files `0..files`.
    pub fn per_file(&self, files: usize) -> Vec<Touched> {
        let mut counts = vec![Touched::default(); files];
        for (file, how) in self.sample.values() {
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
        assert!(set.rate() < 0.3 && set.sample.values().len() <= CAPACITY);
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
