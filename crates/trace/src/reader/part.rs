//! A row group in memory, as a source for the decoder.

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

/// The bytes of a row group; the decoder addresses them by their position in the file.
#[derive(Clone)]
pub(super) struct Part {
    start: u64,
    bytes: Bytes,
}

impl Part {
    pub(super) fn new(group: &RowGroupMetaData, bytes: Bytes) -> Part {
        Part { start: extent(group).0, bytes }
    }

    fn slice(&self, from: u64, len: usize) -> Option<std::ops::Range<usize>> {
        let from = usize::try_from(from.checked_sub(self.start)?).ok()?;
        let end = from.checked_add(len).filter(|end| *end <= self.bytes.len())?;
        Some(from..end)
    }

    /// Returns a column's pages.
    pub(super) fn of(&self, column: &ColumnChunkMetaData) -> Option<&[u8]> {
        let (start, length) = column_extent(column)?;
        Some(&self.bytes[self.slice(start, usize::try_from(length).ok()?)?])
    }
}

impl Length for Part {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Part {
    type T = std::io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let rest = self.slice(start, 0).ok_or_else(|| ParquetError::EOF("outside the row group".into()))?;
        Ok(std::io::Cursor::new(self.bytes.slice(rest.start..)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let range = self.slice(start, length);
        range
            .map(|range| self.bytes.slice(range))
            .ok_or_else(|| ParquetError::EOF("outside the row group".into()))
    }
}

/// Returns start and length of a row group in the file, in bytes. Its columns are contiguous.
pub(super) fn extent(group: &RowGroupMetaData) -> (u64, u64) {
    (group.file_offset().unwrap_or(0).max(0) as u64, group.compressed_size().max(0) as u64)
}

/// Returns start and length of a column's pages in the file, in bytes.
pub(super) fn column_extent(column: &ColumnChunkMetaData) -> Option<(u64, u64)> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    Some((u64::try_from(start).ok()?, u64::try_from(column.compressed_size()).ok()?))
}
