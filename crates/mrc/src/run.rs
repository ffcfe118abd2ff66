//! A run: all models of one recordsize receive the same accesses, on all cores.

use rayon::prelude::*;

use crate::{Access, Counts, Curve, Key, Model, Point};

/// Identifies a family of a [`Run`]: the models whose counts make one curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyId(usize);

/// The models of one recordsize, grouped into named families. One model may cover many cache sizes (LRU), or there is
/// one model for each size (ARC).
#[derive(Default)]
pub struct Run {
    families: Vec<String>,
    /// Each model with its family. The most expensive models are first, so that no core is left with one of them at the
    /// end.
    models: Vec<(FamilyId, Box<dyn Model>)>,
}

impl Run {
    /// Adds the models of one curve. Models of larger caches should be last in `models`: they take the longest, and are
    /// started first.
    pub fn add(&mut self, name: &str, models: Vec<Box<dyn Model>>) -> FamilyId {
        let family = FamilyId(self.families.len());
        self.families.push(name.to_owned());
        self.models.splice(0..0, models.into_iter().rev().map(|model| (family, model)));
        family
    }

    /// Passes a chunk to every model. A few ten thousand accesses amortize the cost of the threads and still fit into
    /// the cache that the cores share.
    pub fn feed(&mut self, chunk: &[Access], keys: &[Key]) {
        self.models.par_iter_mut().with_max_len(1).for_each(|(_, model)| model.feed(chunk, keys));
    }

    /// The counts of one family in ascending order of cache size.
    pub fn counts(&self, family: FamilyId) -> Vec<Counts> {
        let of_family = self.models.iter().filter(|(its, _)| *its == family);
        let mut counts: Vec<Counts> = of_family.flat_map(|(_, model)| model.counts()).collect();
        counts.sort_by_key(|counts| counts.cache_bytes);
        counts
    }

    /// The curve of each family, in the order in which the families were added. `records` is the number of different
    /// records so far.
    pub fn curves(&self, recordsize: Option<u64>, records: u64) -> Vec<Curve> {
        let named = self.families.iter().enumerate();
        named.map(|(n, name)| curve(name, &self.counts(FamilyId(n)), recordsize, records)).collect()
    }

    /// Bytes of memory that all models use now.
    pub fn memory(&self) -> usize {
        self.models.iter().map(|(_, model)| model.memory()).sum()
    }
}

/// The curve of exact counts.
pub fn curve(model: &str, counts: &[Counts], recordsize: Option<u64>, records: u64) -> Curve {
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let point = |counts: &Counts| Point {
        cache_bytes: counts.cache_bytes,
        miss_ratio: counts.miss_ratio(),
        update_miss_ratio: share(counts.update_misses, counts.requests),
        write_miss_ratio: share(counts.write_misses, counts.requests),
        confidence: None,
    };
    Curve {
        model: model.to_owned(),
        recordsize,
        requests: counts.first().map_or(0, |counts| counts.requests),
        records,
        points: counts.iter().map(point).collect(),
        sample: None,
    }
}
