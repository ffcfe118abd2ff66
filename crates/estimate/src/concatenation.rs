//! All files end to end on a line, from which sampled points are drawn.

use crate::source::Source;

/// File lengths on the line are rounded up to this number of bytes. Otherwise, the tail of a tiny file could get more
/// weight than its share.
const LINE_UNIT: u64 = 4 << 10;

/// The line of all files.
pub(crate) struct Concatenation {
    /// The position of each file's start, and the end of the last file, in bytes.
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

    /// Returns the window of `size` bytes around `offset` in a file: its start, its bytes of the file, and its length
    /// on the line.
    pub(crate) fn window(&self, file: usize, file_len: u64, offset: u64, size: u64) -> (u64, u64, u64) {
        let start = offset / size * size;
        let on_line = (self.starts[file + 1] - self.starts[file] - start).min(size);
        (start, (file_len - start).min(size), on_line)
    }
}
