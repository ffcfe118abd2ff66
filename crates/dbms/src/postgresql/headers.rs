//! Reads facts about a database and its log from PostgreSQL's files: the first page of a segment, and the control file.
//!
//! The layouts are those of `access/xlog_internal.h` (`XLogLongPageHeaderData`) and `catalog/pg_control.h` (`ControlFileData`), in the byte
//! order of the machine.

use std::io::Read as _;
use std::path::Path;

use poolwright_base::{cannot, regular};

use crate::Result;

/// The bytes of the first page of a segment that are read.
const HEADER_BYTES: usize = 40;
/// The flag of a page whose header has the identifier of the database; the first page of each segment has it.
const LONG_HEADER: u16 = 2;
/// The bytes of the control file that are read.
const CONTROL_BYTES: usize = 52;
/// The version of the control file of PostgreSQL 12, the first in which a file `recovery.signal` starts a recovery from an archive.
const OLDEST_CONTROL: u32 = 1201;
/// The path of the control file in the data directory.
const CONTROL: &str = "global/pg_control";

/// The beginning of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The byte of the log with which the segment begins.
    pub first_byte: u64,
    /// The identifier of the database.
    pub system_identifier: u64,
    /// The length of all segments, in bytes.
    pub segment_size: u32,
}

impl SegmentHeader {
    /// Reads the beginning of a segment; `None` if it is none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(path: &Path) -> Result<Option<SegmentHeader>> {
        Ok(head::<HEADER_BYTES>(path)?.and_then(|bytes| SegmentHeader::parse(&bytes)))
    }

    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<SegmentHeader> {
        let header = SegmentHeader {
            first_byte: u64_at(bytes, 8),
            system_identifier: u64_at(bytes, 24),
            segment_size: u32_at(bytes, 32),
        };
        let is_long = u16::from_ne_bytes([bytes[2], bytes[3]]) & LONG_HEADER != 0;
        let is_size =
            header.segment_size.is_power_of_two() && (1 << 20..=1 << 30).contains(&header.segment_size);
        (is_long && is_size).then_some(header)
    }
}

/// The control file of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlFile {
    /// The identifier of the database.
    pub system_identifier: u64,
    /// The byte of the log from which a recovery begins.
    pub redo: u64,
    /// Its timeline.
    pub timeline: u32,
}

impl ControlFile {
    /// Reads the control file of a data directory; `None` if PostgreSQL is older than 12.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(data_dir: &Path) -> Result<Option<ControlFile>> {
        Ok(head::<CONTROL_BYTES>(&data_dir.join(CONTROL))?.and_then(|bytes| ControlFile::parse(&bytes)))
    }

    fn parse(bytes: &[u8; CONTROL_BYTES]) -> Option<ControlFile> {
        let version = u32_at(bytes, 8);
        (OLDEST_CONTROL..10_000).contains(&version).then(|| ControlFile {
            system_identifier: u64_at(bytes, 0),
            redo: u64_at(bytes, 40),
            timeline: u32_at(bytes, 48),
        })
    }
}

/// The first bytes of a file; `None` if it is shorter.
fn head<const N: usize>(path: &Path) -> Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    // The owner of the database can put a pipe in the place of the file.
    let read = regular::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    match read {
        Ok(()) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(cause) => Err(cannot("read", path)(cause).into()),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycled_and_other_files_have_no_header() {
        let mut bytes = [0; HEADER_BYTES];
        assert_eq!(SegmentHeader::parse(&bytes), None, "a segment that was never written");
        bytes[2..4].copy_from_slice(&LONG_HEADER.to_ne_bytes());
        bytes[8..16].copy_from_slice(&0x300_0000_u64.to_ne_bytes());
        bytes[24..32].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[32..36].copy_from_slice(&(16_u32 << 20).to_ne_bytes());
        let expected = SegmentHeader { first_byte: 0x300_0000, system_identifier: 7, segment_size: 16 << 20 };
        assert_eq!(SegmentHeader::parse(&bytes), Some(expected));
        bytes[32..36].copy_from_slice(&1000_u32.to_ne_bytes());
        assert_eq!(SegmentHeader::parse(&bytes), None, "no length of a segment");
    }

    #[test]
    fn old_control_files_are_not_used() {
        let mut bytes = [0; CONTROL_BYTES];
        for (version, is_used) in [(0, false), (1100, false), (1201, true), (1700, true), (u32::MAX, false)] {
            bytes[8..12].copy_from_slice(&version.to_ne_bytes());
            assert_eq!(ControlFile::parse(&bytes).is_some(), is_used, "{version}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(ControlFile::read(dir.path()).is_err());
        std::fs::create_dir(dir.path().join("global")).unwrap();
        std::fs::write(dir.path().join(CONTROL), "short").unwrap();
        assert_eq!(ControlFile::read(dir.path()).unwrap(), None);
    }
}
