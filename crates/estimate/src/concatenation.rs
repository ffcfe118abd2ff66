//! The data of all files, concatenated without holes, in units of a fixed size.

use crate::source::Source;

/// The line of all files that can be read.
pub(crate) struct Concatenation {
    /// The parts of the files, in order.
    segments: Vec<Segment>,
    /// The first segment of each file, and the number of all.
    first: Vec<usize>,
    len: u64,
    unit: u64,
}

/// A part of a file that is contiguous on the line. It may be longer than the file, by less than a unit.
struct Segment {
    /// Its position on the line, in bytes.
    at: u64,
    file: usize,
    /// Its offset in the file, in bytes.
    start: u64,
    len: u64,
}

impl Concatenation {
    /// The units of `unit` bytes that contain any data.
    pub(crate) fn new(source: &Source<'_>, unit: u64) -> Concatenation {
        let mut line = Concatenation { segments: Vec::new(), first: vec![0], len: 0, unit };
        for (file, entry) in source.input.files.iter().enumerate() {
            let ranges = if source.is_lost(file) { Vec::new() } else { entry.data.units(unit) };
            for range in ranges {
                let (start, len) = (range.start * unit, (range.end - range.start) * unit);
                line.segments.push(Segment { at: line.len, file, start, len });
                line.len += len;
            }
            line.first.push(line.segments.len());
        }
        line
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }

    /// The length of a file on the line.
    pub(crate) fn len_of(&self, file: usize) -> u64 {
        self.segments_of(file).iter().map(|segment| segment.len).sum()
    }

    fn segments_of(&self, file: usize) -> &[Segment] {
        &self.segments[self.first[file]..self.first[file + 1]]
    }

    /// The file at a point of the line, and the offset in the file.
    pub(crate) fn locate(&self, point: u64) -> (usize, u64) {
        let segment = &self.segments[self.segments.partition_point(|s| s.at <= point) - 1];
        (segment.file, segment.start + point - segment.at)
    }

    /// Returns the window of `size` bytes around `offset` in a file: its start, its bytes of the file, and its length
    /// on the line.
    pub(crate) fn window(&self, file: usize, file_len: u64, offset: u64, size: u64) -> (u64, u64, u64) {
        let start = offset / size * size;
        let segments = self.segments_of(file);
        let first = segments.partition_point(|s| s.start + s.len <= start);
        let inside = segments[first..].iter().take_while(|s| s.start < start + size);
        let on_line = inside.map(|s| (s.start + s.len).min(start + size) - s.start.max(start)).sum();
        (start, (file_len - start).min(size), on_line)
    }
}
