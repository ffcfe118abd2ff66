//! Measures the footprint of a trace in one fast pass and bounded memory, to choose cache sizes.

use poolwright_trace::distinct::{DistinctSample, mix};

use crate::input::Unit;
use crate::{Extent, Input, RecordMap, Result};

/// The maximum number of sampled records. The count is exact up to here, and has a standard error of 1/√(this/2) = 0.55
/// % beyond.
const KEPT: usize = 1 << 16;

/// Sizes in a grid.
const SIZES: usize = 16;

/// Counts different records and their bytes.
#[derive(Debug)]
pub struct Footprint {
    record_map: RecordMap,
    /// The largest size of each record.
    sample: DistinctSample<u32>,
    requests: u64,
}

impl Footprint {
    /// For records of `recordsize` bytes, or of the input's recordsize if `None`.
    ///
    /// # Errors
    /// [`Error::Recordsize`](crate::Error::Recordsize) if the recordsize is invalid.
    pub fn new(unit: Unit, recordsize: Option<u64>) -> Result<Footprint> {
        let record_map = RecordMap::of(unit, recordsize)?;
        Ok(Footprint { record_map, sample: DistinctSample::new(KEPT), requests: 0 })
    }

    /// Reads the rest of an input, or until `stop` returns true, which is called after each chunk.
    ///
    /// # Errors
    /// An error of the input.
    pub fn read(&mut self, input: &mut dyn Input, stop: &mut dyn FnMut(&dyn Input) -> bool) -> Result<()> {
        let mut extents = Vec::new();
        loop {
            input.read(&mut extents)?;
            if extents.is_empty() || stop(input) {
                return Ok(());
            }
            extents.iter().for_each(|extent| self.add(extent));
        }
    }

    fn add(&mut self, extent: &Extent) {
        let Footprint { record_map, sample, requests } = self;
        record_map.split(extent, |cut| {
            *requests += 1;
            sample.update(mix(cut.key), |largest| *largest = cut.bytes.max(*largest));
        });
    }

    /// Accesses so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Different records so far.
    pub fn records(&self) -> u64 {
        (self.sample.values().len() as f64 / self.sample.rate()) as u64
    }

    /// Bytes of these records.
    pub fn bytes(&self) -> u64 {
        let sampled: u64 = self.sample.values().map(|bytes| u64::from(*bytes)).sum();
        (sampled as f64 / self.sample.rate()) as u64
    }
}

/// Up to 16 sizes of two or three binary digits (…, 4M, 6M, 8M, 12M, …), which are easy to read and type. The last one
/// is the first that holds `bytes`; all are at least `least`.
pub fn grid(bytes: u64, least: u64) -> Vec<u64> {
    let steps = (0..62).flat_map(|shift| [1 << shift, 3 << shift >> 1]).filter(|size| *size >= least.max(2));
    let mut sizes: Vec<u64> = Vec::new();
    for size in steps {
        sizes.push(size);
        if size >= bytes {
            break;
        }
    }
    sizes.split_off(sizes.len().saturating_sub(SIZES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn footprint(records: u64, rounds: u64) -> Footprint {
        let extent = |n: u64| Extent { t_ns: 0, file: 0, offset: n * 4096, len: 4096, kind: Kind::Read };
        let mut found = Footprint::new(Unit::Bytes { recordsize: 4096 }, None).unwrap();
        (0..rounds * records).for_each(|n| found.add(&extent(n % records)));
        found
    }

    #[test]
    fn few_records_are_counted_and_many_estimated() {
        let few = footprint(50_000, 2);
        assert_eq!((few.records(), few.bytes(), few.requests()), (50_000, 50_000 * 4096, 100_000));
        for records in [200_000, 1_000_000, 3_000_000] {
            let many = footprint(records, 1);
            let off = many.records() as f64 / records as f64 - 1.0;
            assert!(off.abs() < 4.0 * 0.0055, "{records}: off by {off}");
            assert_eq!(many.bytes(), many.records() * 4096);
            assert!(many.sample.values().len() <= KEPT);
        }
    }

    #[test]
    fn grids_end_at_the_footprint() {
        let mib = 1 << 20;
        assert_eq!(grid(5 * mib, 512).last(), Some(&(6 * mib)));
        assert_eq!(grid(6 * mib, 512).last(), Some(&(6 * mib)));
        assert_eq!(grid(6 * mib + 1, 512).last(), Some(&(8 * mib)));
        let sizes = grid(1 << 40, 512);
        assert_eq!((sizes.len(), sizes[0], sizes[1]), (16, 3 << 31, 1 << 33));
        assert_eq!(grid(4096, 4096), [4096]);
        assert_eq!(grid(0, 8192), [8192]);
        assert_eq!(grid(3 << 20, 1 << 20), [1 << 20, 3 << 19, 2 << 20, 3 << 20]);
        assert!(!grid(u64::MAX, 1).is_empty());
    }
}
