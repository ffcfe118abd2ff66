//! All files end to end.

use crate::source::Source;

/// File lengths are rounded up to this on the line, or the tail of a tiny file would weigh more than it can take.
const LINE_UNIT: u64 = 4 << 10;

/// The line of all files.
pub(crate) struct Concatenation {
    /// Where each file starts, and the end of the last.
    starts: Vec<u64>,
}

impl Concatenation {
    pub(crate) fn new(source: &Source<'_>) -> Concatenation {
        let mut starts = vec![0];
        for file in &source.input.files {
            starts.push(starts[starts.len() - 1] + file.len.next_multiple_of(LINE_UNIT));
        }
        Concatenation { starts }
    }

    pub(crate) fn len(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    pub(crate) fn locate(&self, point: u64) -> (usize, u64) {
        let file = self.starts.partition_point(|s| *s <= point) - 1;
        (file, point - self.starts[file])
    }

    /// The window of `size` around `offset` in a file: start, bytes of the file, length on the line.
    pub(crate) fn window(&self, file: usize, file_len: u64, offset: u64, size: u64) -> (u64, u64, u64) {
        let start = offset / size * size;
        let on_line = (self.starts[file + 1] - self.starts[file] - start).min(size);
        (start, (file_len - start).min(size), on_line)
    }
}
