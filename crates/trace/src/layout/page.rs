//! Page sizes from the headers of database files.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A database's page size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSize {
    /// The size in bytes.
    pub bytes: u32,
    /// The source of the size.
    pub source: PageSource,
}

/// The source of a page size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageSource {
    /// The header of this file.
    Header(PathBuf),
    /// The system's default.
    Default,
}

/// Where a database's files contain the page size.
#[derive(Debug)]
pub(crate) struct Header {
    /// The files below the root; the first that parses counts. If there are none, any file in the root, or the root itself.
    files: &'static [&'static str],
    /// The number of bytes to read.
    length: usize,
    parse: fn(&[u8]) -> Option<u32>,
}

impl Header {
    /// Reads the page size from the files below a directory.
    pub fn page_size(&self, root: &Path) -> Option<PageSize> {
        let paths = match self.files {
            [] if root.is_file() => vec![root.to_owned()],
            [] => files_in(root)?,
            files => files.iter().map(|name| root.join(name)).collect(),
        };
        paths.into_iter().find_map(|path| {
            let bytes = (self.parse)(&head(&path, self.length)?)?;
            Some(PageSize { bytes, source: PageSource::Header(path) })
        })
    }
}

/// Returns the regular files in a directory, by name.
fn files_in(dir: &Path) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let mut paths: Vec<_> =
        entries.filter(|e| e.file_type().is_ok_and(|t| t.is_file())).map(|e| e.path()).collect();
    paths.sort();
    Some(paths)
}

/// Accepts a power of two from 512 to 64K. Any other value did not come from a valid header.
fn plausible(bytes: u32) -> Option<u32> {
    (bytes.is_power_of_two() && (512..=65536).contains(&bytes)).then_some(bytes)
}

fn head(path: &Path, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    poolwright_base::regular::open(path).ok()?.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

fn u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u32_le(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// InnoDB: the flags of the tablespace (FSP header at 38, flags 16 bytes into it, big endian) in `ibdata1` or, in MySQL
/// 8, `mysql.ibd`. `innodb_page_size` applies to the whole server.
pub(crate) static INNODB: Header =
    Header { files: &["ibdata1", "mysql.ibd"], length: 64, parse: innodb_flags };

fn innodb_flags(head: &[u8]) -> Option<u32> {
    const FULL_CRC32: u32 = 1 << 4; // MariaDB 10.5 and later: the size is in bits 0–3, otherwise in bits 6–9
    const FIL_PAGE_TYPE_FSP_HDR: [u8; 2] = [0, 8];
    if head.get(24..26)? != FIL_PAGE_TYPE_FSP_HDR {
        return None;
    }
    let flags = u32_be(head, 54)?;
    let shift = if flags & FULL_CRC32 != 0 { flags & 15 } else { flags >> 6 & 15 };
    plausible(if shift == 0 { 16384 } else { 512 << shift })
}

/// SQLite: 16 bits, big endian, at 16; 1 means 64K (sqlite.org/fileformat2.html).
pub(crate) static SQLITE: Header = Header { files: &[], length: 18, parse: sqlite_head };

fn sqlite_head(head: &[u8]) -> Option<u32> {
    let size = head.strip_prefix(b"SQLite format 3\0")?.get(..2)?;
    match u16::from_be_bytes([size[0], size[1]]) {
        1 => Some(65536),
        size => plausible(u32::from(size)),
    }
}

/// PostgreSQL: `BLCKSZ` in `global/pg_control`.
pub(crate) static POSTGRESQL: Header =
    Header { files: &["global/pg_control"], length: 512, parse: pg_control };

/// The fields before the block size differ between versions, but it always follows the double 1234567.0, which checks
/// the floating-point format.
fn pg_control(head: &[u8]) -> Option<u32> {
    let marker = 1_234_567.0_f64.to_le_bytes();
    let at = head.chunks_exact(8).position(|chunk| chunk == marker)? * 8;
    plausible(u32_le(head, at + 8)?)
}

/// LMDB: a 16-byte page header, then magic, version, address and map size, then the page size.
pub(crate) static LMDB: Header = Header { files: &["data.mdb"], length: 64, parse: lmdb_meta };

fn lmdb_meta(head: &[u8]) -> Option<u32> {
    const MAGIC: u32 = 0xbeef_c0de;
    (u32_le(head, 16)? == MAGIC).then(|| u32_le(head, 40)).flatten().and_then(plausible)
}

/// Berkeley DB: magic of a B-tree or hash at 12, page size at 20, in the byte order of the machine that created the
/// file.
pub(crate) static BERKELEY_DB: Header = Header { files: &[], length: 24, parse: berkeley_meta };

fn berkeley_meta(head: &[u8]) -> Option<u32> {
    const MAGICS: [u32; 2] = [0x0005_3162, 0x0006_1561];
    if MAGICS.contains(&u32_le(head, 12)?) {
        plausible(u32_le(head, 20)?)
    } else if MAGICS.contains(&u32_be(head, 12)?) {
        plausible(u32_be(head, 20)?)
    } else {
        None
    }
}

/// bbolt: a 16-byte page header with the flag of a meta page at 8, then magic, version and page size, in the byte order of
/// the machine.
pub(crate) static BBOLT: Header = Header { files: &[], length: 28, parse: bbolt_meta };

/// etcd: the bbolt file below the data directory, or below its `member`.
pub(crate) static ETCD: Header =
    Header { files: &["member/snap/db", "snap/db"], length: 28, parse: bbolt_meta };

fn bbolt_meta(head: &[u8]) -> Option<u32> {
    const META_PAGE: [u8; 2] = [4, 0];
    const MAGIC: u32 = 0xed0c_daed;
    let is_meta = head.get(8..10)? == META_PAGE && u32_le(head, 16)? == MAGIC;
    is_meta.then(|| u32_le(head, 24)).flatten().and_then(plausible)
}

/// DuckDB: magic at 8; the size of blocks 40 bytes into the first of two database headers, 0 before version 1.2.
pub(crate) static DUCKDB: Header = Header { files: &[], length: 4144, parse: duckdb_head };

fn duckdb_head(head: &[u8]) -> Option<u32> {
    const BLOCKS: std::ops::RangeInclusive<u32> = 16384..=DEFAULT;
    const DEFAULT: u32 = 262_144;
    if head.get(8..12)? != b"DUCK" {
        return None;
    }
    match u32_le(head, 4136)? {
        0 => Some(DEFAULT),
        size => (size.is_power_of_two() && BLOCKS.contains(&size)).then_some(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_header_is_a_size_or_none(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            for parse in [innodb_flags, sqlite_head, pg_control, lmdb_meta, berkeley_meta, bbolt_meta] {
                prop_assert!(parse(&bytes).is_none_or(|size| plausible(size).is_some()));
            }
            duckdb_head(&bytes);
        }
    }
}
