//! The distribution of reuse distances.

use crate::Kind;

/// Classes per octave, as a power of two: an inexact size is within 1/128.
const FINE: u32 = 7;

/// Counts of reuse distances in classes: one class per byte up to 256, then 128 per octave. The class that contains a
/// requested cache size is split there, so that the counts of that size are exact.
#[derive(Clone, Debug)]
pub(super) struct Reuse {
    /// The beginning of each class, ascending; the first is 0.
    cuts: Vec<u64>,
    /// The first cut of each original class.
    first: Vec<u16>,
    /// By [`Kind`], without `Free`.
    tallies: [Tally; 3],
}

#[derive(Clone, Debug)]
struct Tally {
    /// By class.
    counts: Vec<u64>,
    /// Requests for records that were not on the stack: first accesses, and those after a `Free`.
    cold: u64,
}

/// The class of `x`: its leading bits and the number of bits that follow.
fn class(x: u64) -> usize {
    let shift = (u64::BITS - x.leading_zeros()).saturating_sub(FINE + 1);
    ((shift as usize) << FINE) + (x >> shift) as usize
}

/// The smallest number of a class.
fn begin(class: usize) -> u64 {
    let shift = (class >> FINE).saturating_sub(1);
    ((class - (shift << FINE)) as u64) << shift
}

impl Reuse {
    /// Distances for caches of `sizes` bytes, which may be tens of thousands of sizes.
    pub(super) fn new(sizes: &[u64]) -> Reuse {
        let classes = class(u64::MAX) + 1;
        let mut cuts: Vec<u64> = (0..classes).map(begin).chain(sizes.iter().copied()).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let first = (0..classes).map(|c| cuts.partition_point(|cut| *cut < begin(c)) as u16).collect();
        let tally = Tally { counts: vec![0; cuts.len()], cold: 0 };
        Reuse { cuts, first, tallies: [tally.clone(), tally.clone(), tally] }
    }

    /// Counts a request. `distance` is the bytes of the record and of all records used since; `None` if the record was
    /// not on the stack.
    pub(super) fn count(&mut self, kind: Kind, distance: Option<u64>) {
        let tally = &mut self.tallies[kind as usize];
        let Some(distance) = distance else {
            tally.cold += 1;
            return;
        };
        // A cache of exactly `distance` bytes holds the record, so distances up to a size fall before its cut.
        let x = distance - 1;
        let mut class = usize::from(self.first[class(x)]);
        while self.cuts.get(class + 1).is_some_and(|cut| *cut <= x) {
            class += 1;
        }
        tally.counts[class] += 1;
    }

    /// Requests counted.
    pub(super) fn requests(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.cold + tally.counts.iter().sum::<u64>()).sum()
    }

    /// Requests of one kind that miss in a cache of `size` bytes.
    pub(super) fn misses(&self, kind: Kind, size: u64) -> u64 {
        let tally = &self.tallies[kind as usize];
        let next = self.cuts.partition_point(|cut| *cut < size);
        let above: u64 = tally.cold + tally.counts[next..].iter().sum::<u64>();
        let Some(begin) = next.checked_sub(1).map(|class| self.cuts[class]) else { return above };
        // The part above `size` of the class that contains it; nothing if the class was split there.
        let end = self.cuts.get(next).copied().unwrap_or(u64::MAX);
        let part = (end - size) as f64 / (end - begin) as f64;
        above + (tally.counts[next - 1] as f64 * part).round() as u64
    }

    pub(super) fn memory(&self) -> usize {
        let counts: usize = self.tallies.iter().map(|tally| tally.counts.capacity()).sum();
        (self.cuts.capacity() + counts) * 8 + self.first.capacity() * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_one_another_without_a_gap() {
        let classes = class(u64::MAX) + 1;
        for c in 0..classes {
            assert_eq!(class(begin(c)), c);
            assert!(c == 0 || class(begin(c) - 1) == c - 1);
        }
    }

    #[test]
    fn requested_sizes_are_exact_and_others_close() {
        let sizes = [1000, 4096, 5000, 1_000_000];
        let mut reuse = Reuse::new(&sizes);
        let distances: Vec<u64> =
            (1..20_000).chain([4096, 999_999, 1_000_000, 1_000_001, u64::MAX]).collect();
        for &distance in &distances {
            reuse.count(Kind::Read, Some(distance));
        }
        reuse.count(Kind::Read, None);
        let true_misses = |size: u64| 1 + distances.iter().filter(|d| **d > size).count() as u64;
        for size in sizes {
            assert_eq!(reuse.misses(Kind::Read, size), true_misses(size), "{size}");
        }
        // Below the last class, which is only partly filled.
        for size in (1..19_900).step_by(7) {
            assert!(reuse.misses(Kind::Read, size).abs_diff(true_misses(size)) <= 1, "{size}");
        }
        assert_eq!(reuse.requests(), distances.len() as u64 + 1);
    }
}
