//! The ranges of a file that contain data.
//!
//! The rest are holes, which need not be read: OpenZFS stores no block for a record that was never written, and no indirect block
//! that points to holes only (`dbuf_write_children_ready`).

use std::fs::File;
use std::ops::Range;

use poolwright_base::extents::next_data;

/// The maximum number of ranges of a file (16 MiB of memory). A file with more holes has its smallest ones counted as data.
const MAX_RANGES: usize = 1 << 20;

/// Disjoint ranges in bytes, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataRanges {
    ranges: Vec<Range<u64>>,
    /// Smaller holes count as data, in bytes.
    min_hole: u64,
    bytes: u64,
}

impl DataRanges {
    /// Asks the file system for the ranges. A file system that does not report holes has one range, and so has the part that
    /// it fails to report.
    pub(crate) fn of(file: &File, len: u64) -> DataRanges {
        let mut found = DataRanges::default();
        let mut at = 0;
        while let Some((start, end)) = next_data(file, at, len).unwrap_or((at < len).then_some((at, len))) {
            found.push(start..end, MAX_RANGES);
            at = end;
        }
        found.bytes = found.ranges.iter().map(|range| range.end - range.start).sum();
        found
    }

    /// One range: the whole file.
    pub(crate) fn whole(len: u64) -> DataRanges {
        DataRanges { ranges: std::iter::once(0..len).collect(), min_hole: 0, bytes: len }
    }

    fn push(&mut self, range: Range<u64>, max: usize) {
        match self.ranges.last_mut() {
            Some(last) if range.start - last.end <= self.min_hole => last.end = range.end,
            _ => self.ranges.push(range),
        }
        while self.ranges.len() > max {
            self.min_hole = (self.min_hole * 2).max(4 << 10);
            let min_hole = self.min_hole;
            self.ranges.dedup_by(|next, last| {
                let is_near = next.start - last.end <= min_hole;
                if is_near {
                    last.end = next.end;
                }
                is_near
            });
        }
    }

    /// The number of bytes in the ranges.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether any byte from `start` to `end` (exclusive) is data.
    pub(crate) fn overlap(&self, start: u64, end: u64) -> bool {
        self.within(start, end).next().is_some()
    }

    /// The parts of the ranges from `start` to `end` (exclusive).
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Range<u64>> {
        let first = self.ranges.partition_point(|range| range.end <= start);
        let touched = self.ranges[first..].iter().take_while(move |range| range.start < end);
        touched.map(move |range| range.start.max(start)..range.end.min(end))
    }

    /// The units of `size` bytes that contain any data, by number: as ranges in ascending order, none of which touch.
    pub(crate) fn units(&self, size: u64) -> Vec<Range<u64>> {
        let mut units: Vec<Range<u64>> = Vec::new();
        for range in &self.ranges {
            let (start, end) = (range.start / size, range.end.div_ceil(size));
            match units.last_mut() {
                Some(last) if start <= last.end => last.end = end,
                _ => units.push(start..end),
            }
        }
        units
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn ranges(of: &[Range<u64>]) -> DataRanges {
        DataRanges { ranges: of.to_vec(), ..DataRanges::default() }
    }

    #[test]
    fn holes_are_left_out() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(DataRanges::of(&file, 1 << 40).bytes(), 0);
        file.write_all_at(&[1; 4096], 1 << 30).unwrap();
        file.write_all_at(&[1; 4096], (1 << 40) - 4096).unwrap();
        let found = DataRanges::of(&file, 1 << 40);
        assert!(found.bytes() < 1 << 20, "{found:?}");
        assert!(found.overlap(1 << 30, (1 << 30) + 1) && !found.overlap(1 << 35, 1 << 36));
    }

    #[test]
    fn parts_and_units_are_those_of_the_ranges() {
        let data = ranges(&[10..20, 30..40, 90..91]);
        assert_eq!(data.within(15, 35).collect::<Vec<_>>(), [15..20, 30..35]);
        assert_eq!(data.within(20, 30).next(), None);
        assert_eq!(data.units(16), [0..3, 5..6]);
        assert_eq!(data.units(10), [1..2, 3..4, 9..10]);
    }

    #[test]
    fn the_smallest_holes_of_a_file_with_very_many_count_as_data() {
        let mut data = DataRanges::default();
        for i in 0..1000 {
            data.push(i * 8192..i * 8192 + 4096, 100);
        }
        data.push(1 << 40..(1 << 40) + 1, 100);
        assert_eq!(data.ranges, [0..999 * 8192 + 4096, 1 << 40..(1 << 40) + 1]);
    }
}
