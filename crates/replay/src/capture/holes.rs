//! The ranges of a file that contain no data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Disjoint ranges without data, in bytes: start to end (exclusive).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Holes(BTreeMap<u64, u64>);

impl Holes {
    /// Records that the file contains no data from `from` to `to` (exclusive).
    pub fn add(&mut self, mut from: u64, mut to: u64) {
        if from >= to {
            return;
        }
        while let Some((begin, end)) = self.last_before(to.saturating_add(1)).filter(|(_, end)| *end >= from)
        {
            self.0.remove(&begin);
            (from, to) = (from.min(begin), to.max(end));
        }
        self.0.insert(from, to);
    }

    /// Records that the file contains data from `from` to `to` (exclusive).
    pub fn remove(&mut self, from: u64, to: u64) {
        while let Some((begin, end)) = self.last_before(to).filter(|(_, end)| *end > from) {
            self.0.remove(&begin);
            if begin < from {
                self.0.insert(begin, from);
            }
            if end > to {
                self.0.insert(to, end);
            }
        }
    }

    /// Returns the hole that begins last before `before`.
    fn last_before(&self, before: u64) -> Option<(u64, u64)> {
        self.0.range(..before).next_back().map(|(begin, end)| (*begin, *end))
    }

    /// Returns the ranges with data between `from` and `to` (exclusive), in order.
    pub fn data(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let first = self.last_before(from).map_or(from, |(begin, _)| begin);
        let mut at = from;
        let mut found = Vec::new();
        for (begin, end) in self.0.range(first..to.max(first)).map(|(begin, end)| (*begin, *end)) {
            if begin > at {
                found.push((at, begin));
            }
            at = at.max(end);
        }
        if at < to {
            found.push((at, to));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn holes_are_what_a_bitmap_says(changes in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..12), 0..60)) {
            let mut holes = Holes::default();
            let mut bitmap = [true; 64];
            for (add, from, len) in changes {
                let to = from + len;
                if add { holes.add(from, to) } else { holes.remove(from, to) }
                bitmap[from as usize..to as usize].fill(!add);
            }
            for (from, to) in [(0, 64), (5, 40), (17, 18), (20, 20)] {
                let mut data = [false; 64];
                for (begin, end) in holes.data(from, to) {
                    prop_assert!(begin < end && from <= begin && end <= to);
                    data[begin as usize..end as usize].fill(true);
                }
                for at in 0..64 {
                    prop_assert_eq!(data[at], bitmap[at] && (from..to).contains(&(at as u64)));
                }
            }
        }
    }
}
