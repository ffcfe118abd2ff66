//! The distribution of reuse distances.

use crate::Kind;

/// Counts of reuse distances between the sizes of the caches.
#[derive(Clone, Debug)]
pub(super) struct Reuse {
    /// Bytes of the caches, ascending.
    sizes: Vec<u64>,
    /// By [`Kind`], without `Free`, and by the smallest of `sizes` in which the request hits. The last count is that of
    /// requests that hit in none, or whose record was not on the stack: first accesses, and those after a `Free`.
    counts: [Vec<u64>; 3],
}

impl Reuse {
    /// Distances for caches of `sizes` bytes.
    pub(super) fn new(sizes: &[u64]) -> Reuse {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let counts = std::array::from_fn(|_| vec![0; sizes.len() + 1]);
        Reuse { sizes, counts }
    }

    /// Counts a request. `distance` is the bytes of the record and of all records used since; `None` if the record was
    /// not on the stack.
    pub(super) fn count(&mut self, kind: Kind, distance: Option<u64>) {
        let hits = distance.map_or(self.sizes.len(), |distance| self.index(distance));
        self.counts[kind as usize][hits] += 1;
    }

    /// Requests counted.
    pub(super) fn requests(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// Requests of one kind that miss in a cache of `size` bytes, which is one of the sizes.
    pub(super) fn misses(&self, kind: Kind, size: u64) -> u64 {
        self.counts[kind as usize][self.index(size) + 1..].iter().sum()
    }

    /// The index of the first size of at least `bytes`.
    fn index(&self, bytes: u64) -> usize {
        self.sizes.partition_point(|size| *size < bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_hits_in_a_cache_of_its_distance_and_in_larger_ones() {
        let sizes = [5000, 1000, 4096, 1_000_000];
        let mut reuse = Reuse::new(&sizes);
        let distances: Vec<u64> =
            (1..20_000).chain([4096, 999_999, 1_000_000, 1_000_001, u64::MAX]).collect();
        for &distance in &distances {
            reuse.count(Kind::Read, Some(distance));
        }
        reuse.count(Kind::Read, None);
        for size in sizes {
            let true_misses = 1 + distances.iter().filter(|d| **d > size).count() as u64;
            assert_eq!(reuse.misses(Kind::Read, size), true_misses, "{size}");
        }
        assert_eq!(reuse.requests(), distances.len() as u64 + 1);
    }
}
