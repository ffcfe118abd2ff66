//! Finds the last complete footer of a trace, also if its end is torn.

use std::fs::File as Disk;
use std::os::unix::fs::FileExt;
use std::path::Path;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::checksum::{SEAL_LEN, SEAL_MAGIC, seal};
use crate::error::{Error, Result, io};

/// The first and last bytes of a Parquet file.
pub(super) const MAGIC: &[u8; 4] = b"PAR1";
/// The size of a Parquet file's end: the footer's length and the magic.
pub(super) const TAIL: u64 = 8;
/// The maximum length of a footer in bytes, so that a false length cannot exhaust memory. It is far above the footers
/// of [`crate::Writer`]; a million files take as much.
const FOOTER_LIMIT: u64 = 128 << 20;
/// The maximum number of seals without a valid footer. A torn trace has at most one; a crafted trace could make the
/// reader read many.
pub(super) const FALSE_SEALS: u32 = 16;

/// Returns a value of the footer's metadata.
pub(super) fn footer_value<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

/// Returns the last complete footer and the position of its end.
pub(super) fn find_footer(file: &Disk, path: &Path, len: u64) -> Result<(ParquetMetaData, u64)> {
    if let Footer::Whole(metadata) = footer_before(file, len).map_err(io("read", path))? {
        return Ok((metadata, len));
    }
    const STEP: u64 = 1 << 20;
    let mut end = len;
    let mut seals = 0;
    while end > TAIL {
        let start = end.saturating_sub(STEP).max(4);
        let mut bytes = vec![0; (end - start) as usize];
        file.read_exact_at(&mut bytes, start).map_err(io("read", path))?;
        for at in (0..bytes.len().saturating_sub(MAGIC.len() - 1)).rev() {
            if &bytes[at..at + 4] != MAGIC {
                continue;
            }
            let stop = start + at as u64 + 4;
            match footer_before(file, stop).map_err(io("read", path))? {
                Footer::Whole(metadata) => return Ok((metadata, stop)),
                Footer::Damaged if seals == FALSE_SEALS => {
                    return Err(Error::Truncated(path.to_owned()));
                }
                Footer::Damaged => seals += 1,
                Footer::None => {}
            }
        }
        if start == 4 {
            break;
        }
        end = start + 3; // a magic may cross the boundary of two steps
    }
    Err(Error::Truncated(path.to_owned()))
}

/// The result of looking for a footer that ends at a given position.
enum Footer {
    Whole(ParquetMetaData),
    /// There is a seal, but it does not match.
    Damaged,
    None,
}

/// Reads the footer that ends exactly at `end`, if there is one and it matches its seal.
fn footer_before(file: &Disk, end: u64) -> std::io::Result<Footer> {
    if end < 4 + SEAL_LEN + TAIL {
        return Ok(Footer::None);
    }
    let mut tail = [0; TAIL as usize];
    file.read_exact_at(&mut tail, end - TAIL)?;
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if &tail[4..] != MAGIC || length == 0 || length > (end - TAIL - SEAL_LEN - 4).min(FOOTER_LIMIT) {
        return Ok(Footer::None);
    }
    let start = end - TAIL - length;
    let mut found = [0; SEAL_LEN as usize];
    file.read_exact_at(&mut found, start - SEAL_LEN)?;
    if &found[..8] != SEAL_MAGIC {
        return Ok(Footer::None);
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, start)?;
    if seal(&bytes) != found {
        return Ok(Footer::Damaged);
    }
    Ok(ParquetMetaDataReader::decode_metadata(&bytes).map_or(Footer::Damaged, Footer::Whole))
}
