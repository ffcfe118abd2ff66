//! Counts distinct keys in bounded memory.
//!
//! A key is kept if its hash is below a limit. When too many keys are kept, the limit is halved and the keys above it
//! are dropped. The kept keys are thus a uniform sample of all keys, and their number divided by the sampling rate
//! estimates the total (adaptive sampling: Wegman; Flajolet, "On adaptive sampling", Computing 43, 1990). The count is
//! exact up to the capacity; above, one standard error of the total is at most `1/sqrt(capacity/2)`.

use rustc_hash::FxHashMap;

/// A sample of distinct keys, each with a value.
#[derive(Debug)]
pub struct DistinctSample<T> {
    capacity: usize,
    /// Keys whose hash is at or above the limit are dropped; `None` while all are kept.
    limit: Option<u64>,
    kept: FxHashMap<u64, T>,
}

impl<T: Default> DistinctSample<T> {
    /// Creates a sample of at most `capacity` keys.
    pub fn new(capacity: usize) -> DistinctSample<T> {
        DistinctSample { capacity, limit: None, kept: FxHashMap::default() }
    }

    /// Calls `change` with the value of the key with this hash ([`mix`]) if the sample has the key.
    pub fn update(&mut self, hash: u64, change: impl FnOnce(&mut T)) {
        if self.limit.is_some_and(|limit| hash >= limit) {
            return;
        }
        change(self.kept.entry(hash).or_default());
        while self.kept.len() > self.capacity {
            let limit = self.limit.map_or(1 << 63, |limit| limit / 2);
            self.kept.retain(|hash, _| *hash < limit);
            self.limit = Some(limit);
        }
    }

    /// Returns the share of the keys that the sample has; 1 if it has all.
    pub fn rate(&self) -> f64 {
        self.limit.map_or(1.0, |limit| limit as f64 / 2f64.powi(64))
    }

    /// Returns the values of the sampled keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &T> {
        self.kept.values()
    }
}

/// An invertible hash in which every output bit depends on every input bit, so distinct keys stay distinct (variant 13
/// of Stafford, "Better bit mixing", 2011; the finaliser of SplitMix64).
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
