//! A sample at one rate: its records, its models, and the curves that follow for the whole trace. A rate of 1 is an
//! exact run.

use rayon::prelude::*;

use super::confidence::{Basis, Observed, scaled};
use super::f2_sketch::{F2Sketch, group};
use super::{FEWEST_RECORDS, FEWEST_SLOTS, Family, GROUPS};
use crate::record_stream::Numbering;
use crate::run::{self, FamilyId};
use crate::{Access, Counts, Curve, Key, Point, Result, Run, Sample, UnsupportedSize};

/// One sixteenth of the sample, with models that receive nothing else.
#[derive(Default)]
struct Group {
    run: Run,
    keys: Vec<Key>,
    chunk: Vec<Access>,
}

/// A sample of the records at a fixed rate.
pub(super) struct Level {
    rate: f64,
    threshold: u64,
    /// The sampled accesses that the models have not received yet.
    pub records: Numbering,
    run: Run,
    /// The families of the run, which are also those of each group; empty before the models are made.
    made: Vec<FamilyId>,
    /// Empty at a rate of 1.
    groups: Vec<Group>,
    /// For each record: its number in its group, and the group in the lowest bits. Empty at a rate of 1.
    places: Vec<u32>,
    /// Mean bytes of a record when the models were made; `None` before.
    record_bytes: Option<f64>,
    /// Sums over the records of their bytes and of the squares of their bytes; 0 at a rate of 1.
    bytes: [f64; 2],
}

impl Level {
    pub fn new(rate: f64, families: &[Family]) -> Level {
        let groups = if rate < 1.0 { GROUPS } else { 0 };
        let mut level = Level {
            rate,
            threshold: (rate * 2f64.powi(64)) as u64,
            records: Numbering::default(),
            run: Run::default(),
            made: Vec::new(),
            groups: (0..groups).map(|_| Group::default()).collect(),
            places: Vec::new(),
            record_bytes: None,
            bytes: [0.0; 2],
        };
        if rate >= 1.0 {
            // Without a sample, the sizes of the models do not depend on the records.
            level.make(families);
        }
        level
    }

    pub fn rate(&self) -> f64 {
        self.rate
    }

    pub fn takes(&self, hash: u64) -> bool {
        hash <= self.threshold
    }

    pub fn memory(&self) -> usize {
        let group = |group: &Group| {
            group.run.memory() + group.keys.capacity() * 8 + group.chunk.capacity() * size_of::<Access>()
        };
        self.records.memory()
            + self.run.memory()
            + self.places.capacity() * 4
            + self.groups.iter().map(group).sum::<usize>()
    }

    /// Passes the collected accesses to the models.
    pub fn feed(&mut self, families: &[Family], sketch: &F2Sketch) -> Result<()> {
        self.records.number()?;
        if self.records.accesses().is_empty() {
            return Ok(());
        }
        self.divide(sketch);
        if self.record_bytes.is_none() {
            self.make(families);
        }
        let Level { run, records, groups, .. } = self;
        rayon::join(
            || run.feed(records.accesses(), records.keys()),
            || groups.par_iter_mut().for_each(|group| group.run.feed(&group.chunk, &group.keys)),
        );
        self.records.clear();
        self.groups.iter_mut().for_each(|group| group.chunk.clear());
        Ok(())
    }

    /// Divides the accesses among the groups.
    fn divide(&mut self, sketch: &F2Sketch) {
        let Level { records, groups, places, bytes: sums, .. } = self;
        if groups.is_empty() {
            return;
        }
        for access in records.accesses() {
            if access.record as usize == places.len() {
                let bytes = f64::from(access.bytes);
                sums[0] += bytes;
                sums[1] += bytes * bytes;
                let key = records.keys()[places.len()];
                let group = group(sketch.hash(key));
                places.push((groups[group].keys.len() * GROUPS + group) as u32);
                groups[group].keys.push(key);
            }
            let place = places[access.record as usize];
            let record = place / GROUPS as u32;
            groups[place as usize % GROUPS].chunk.push(Access { record, ..*access });
        }
    }

    /// Makes the models, after the first records show their mean size.
    fn make(&mut self, families: &[Family]) {
        self.record_bytes = Some(self.bytes[0] / self.records.keys().len().max(1) as f64);
        for family in families {
            let sizes = family.sizes.iter().flat_map(|&size| self.whole_sizes(size, family.grain_bytes));
            let sizes = distinct(sizes.collect());
            self.made.push(self.run.add(&family.name, (family.models)(&sizes, self.rate)));
            let rate = self.rate / GROUPS as f64;
            let sizes = distinct(family.sizes.iter().map(|&size| self.group_size(size)).collect());
            for group in &mut self.groups {
                group.run.add(&family.name, (family.models)(&sizes, rate));
            }
        }
    }

    /// The sizes at which the whole sample is modelled for a cache of `cache_bytes`: its own, a larger and a smaller
    /// one, by the error of chance and of the coarseness of the model.
    fn whole_sizes(&self, cache_bytes: u64, grain_bytes: u64) -> [u64; 3] {
        let (middle, chance) = scaled(cache_bytes, self.rate, self.record_bytes.unwrap_or_default());
        let spread = chance + grain_bytes as f64 * (1.0 - self.rate);
        [middle, middle + spread, middle - spread].map(|bytes| bytes.round().max(1.0) as u64)
    }

    fn group_size(&self, cache_bytes: u64) -> u64 {
        let rate = self.rate / GROUPS as f64;
        scaled(cache_bytes, rate, self.record_bytes.unwrap_or_default()).0.round().max(1.0) as u64
    }

    /// The curve of each family, in the order of `families`.
    pub fn curves(&self, families: &[Family], sketch: &F2Sketch, recordsize: Option<u64>) -> Vec<Curve> {
        let made = self.made.iter().copied().map(Some).chain(std::iter::repeat(None));
        families.iter().zip(made).map(|(family, made)| self.curve(family, made, sketch, recordsize)).collect()
    }

    fn curve(
        &self,
        family: &Family,
        made: Option<FamilyId>,
        sketch: &F2Sketch,
        recordsize: Option<u64>,
    ) -> Curve {
        let records = self.records.keys().len() as u64;
        let counts = |run: &Run| made.map_or_else(Vec::new, |made| run.counts(made));
        let whole = counts(&self.run);
        if self.rate >= 1.0 {
            return run::curve(&family.name, &whole, recordsize, records);
        }
        let groups: Vec<_> = self.groups.iter().map(|group| counts(&group.run)).collect();
        let (mut points, mut unsupported_sizes) = (Vec::new(), Vec::new());
        for cache_bytes in distinct(family.sizes.clone()) {
            let short = self.short_of(cache_bytes, family.least_bytes);
            if short > 1.0 {
                unsupported_sizes
                    .push(UnsupportedSize { cache_bytes, needs_rate: (self.rate * short).min(1.0) });
            } else {
                let sizes = self.whole_sizes(cache_bytes, family.grain_bytes);
                let observed = sizes.map(|size| find(&whole, size));
                points.push(self.point(cache_bytes, observed, &groups, sketch));
            }
        }
        Curve {
            model: family.name.clone(),
            recordsize,
            requests: sketch.requests(),
            records: (records as f64 / self.rate).round() as u64,
            points,
            sample: Some(Sample { rate: self.rate, records, unsupported_sizes }),
        }
    }

    /// The number of sampled records that fit into the sample's cache; fewer if their sizes differ.
    fn slots(&self, cache_bytes: u64) -> f64 {
        self.rate * cache_bytes as f64 * self.bytes[0] / self.bytes[1]
    }

    /// The factor by which the sample is too small for this size; at most 1 if it is large enough.
    fn short_of(&self, cache_bytes: u64, least_bytes: u64) -> f64 {
        let records = FEWEST_RECORDS as f64 / self.records.keys().len().max(1) as f64;
        let bytes = least_bytes as f64 / (self.rate * cache_bytes as f64);
        records.max(bytes).max(FEWEST_SLOTS / self.slots(cache_bytes))
    }

    /// The point from the counts of the whole sample at this size, at a larger and at a smaller one, and from the
    /// counts of the groups.
    fn point(
        &self,
        cache_bytes: u64,
        seen: [&Counts; 3],
        groups: &[Vec<Counts>],
        sketch: &F2Sketch,
    ) -> Point {
        let expected = self.rate * sketch.requests() as f64;
        let size = self.group_size(cache_bytes);
        let parts: Vec<&Counts> = groups.iter().map(|counts| find(counts, size)).collect();
        let by_group = |count: &dyn Fn(&Counts) -> u64| -> [f64; GROUPS] {
            std::array::from_fn(|n| count(parts[n]) as f64 * GROUPS as f64 / expected)
        };
        let basis = Basis {
            rate: self.rate,
            requests: sketch.requests() as f64,
            squares: sketch.squares(),
            records: self.records.keys().len() as f64,
            groups: by_group(&|counts| counts.requests),
        };
        let estimate = |count: &dyn Fn(&Counts) -> u64| {
            let [whole, larger, smaller] = seen.map(|counts| count(counts) as f64 / expected);
            let observed = Observed { whole, larger, smaller, groups: by_group(count) };
            basis.estimate(&observed, self.slots(cache_bytes))
        };
        let (miss_ratio, confidence) = estimate(&|counts| counts.misses);
        Point {
            cache_bytes,
            miss_ratio,
            update_miss_ratio: estimate(&|counts| counts.update_misses).0,
            write_miss_ratio: estimate(&|counts| counts.write_misses).0,
            confidence: Some(confidence),
        }
    }
}

/// Ascending and without duplicates, because counts are found by their size.
fn distinct(mut sizes: Vec<u64>) -> Vec<u64> {
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn find(counts: &[Counts], cache_bytes: u64) -> &Counts {
    let at = counts.partition_point(|counts| counts.cache_bytes < cache_bytes);
    &counts[at]
}
