//! Statistics of the whole trace in constant memory: the number of requests, and how unevenly they are distributed over
//! the records.

use poolwright_trace::distinct::mix;

use crate::Key;

/// Counters of the sketch: 32 KiB, which stay in the L1 cache. The standard error of the sum of squares is √(2/4096), 2
/// %.
const COUNTERS: usize = 1 << 12;
/// Bits of a hash below those of the sketch: the group of a record ([`super::GROUPS`]).
const GROUP_BITS: u32 = 4;

/// Counts every request, sampled or not.
///
/// The sum over the records of their squared requests shows how much the number of sampled requests varies between samples. The sample
/// itself does not show it, because it may have missed the few records with most of the requests. The sketch is a tug of war (Alon, Matias
/// and Szegedy, "The space complexity of approximating the frequency moments", STOC 1996) with one counter for each of many classes of
/// records (Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", ICALP 2002). A record always adds 1 or always
/// subtracts 1, so that different records cancel out and squares add up.
#[derive(Clone, Debug)]
pub(super) struct F2Sketch {
    seed: u64,
    requests: u64,
    counters: Vec<i64>,
}

impl F2Sketch {
    /// A sketch with the hash of a seed. Another seed selects another sample.
    pub fn new(seed: u64) -> F2Sketch {
        F2Sketch { seed: mix(seed), requests: 0, counters: vec![0; COUNTERS] }
    }

    /// The hash of a record. Hashes are evenly distributed: those up to a share of `u64::MAX` belong to that share of the
    /// records.
    pub fn hash(&self, key: Key) -> u64 {
        mix(key ^ self.seed)
    }

    /// Counts a request without its record, and returns a hash that belongs to every share.
    pub fn pass(&mut self) -> u64 {
        self.requests += 1;
        0
    }

    /// Counts a request, and returns the hash of its record.
    pub fn see(&mut self, key: Key) -> u64 {
        let hash = self.hash(key);
        let low = hash >> GROUP_BITS;
        self.requests += 1;
        self.counters[low as usize % COUNTERS] += if low & COUNTERS as u64 == 0 { 1 } else { -1 };
        hash
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The sum over the records of their squared requests, within a few percent.
    pub fn squares(&self) -> f64 {
        self.counters.iter().map(|&count| count as f64 * count as f64).sum()
    }
}

/// The group of a record, from its hash.
pub(super) fn group(hash: u64) -> usize {
    (hash & ((1 << GROUP_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sketch_estimates_the_squares_for_every_seed() {
        // One record with half of the requests, the others with few.
        let requests = |key: u64| if key == 7 { 50_000 } else { 1 + key % 4 };
        let truth: u64 = (0..20_000).map(|key| requests(key) * requests(key)).sum();
        for seed in 0..20 {
            let mut sketch = F2Sketch::new(seed);
            for key in 0..20_000 {
                (0..requests(key)).for_each(|_| _ = sketch.see(key));
            }
            assert_eq!(sketch.requests(), (0..20_000).map(requests).sum::<u64>());
            let off = sketch.squares() / truth as f64 - 1.0;
            assert!(off.abs() < 0.1, "seed {seed}: {off}");
        }
    }

    #[test]
    fn a_share_of_the_hashes_is_that_share_of_the_records_in_every_group() {
        for seed in 0..5 {
            let mut sketch = F2Sketch::new(seed);
            let mut groups = [0u32; 1 << GROUP_BITS];
            for key in 0..1_000_000 {
                let hash = sketch.see(key);
                groups[group(hash)] += u32::from(hash <= u64::MAX / 10);
            }
            // 6250 each, within five standard deviations.
            assert!(groups.iter().all(|count| count.abs_diff(6_250) < 400), "{groups:?}");
        }
    }
}
