//! Recomputes the checksums of a changed trace. A trace has a checksum for each row group and a seal before each footer. Without this
//! step the reader would reject nearly every mutation there, and the code behind would not be tested.

use parquet::file::metadata::ParquetMetaDataReader;

const SEAL: &[u8; 8] = b"PWTRSEAL";
const KEY: &[u8] = b"poolwright.crc32";

/// Recomputes the checksums and the seal of a trace, if its last footer can be located.
pub fn seal(bytes: &mut [u8]) {
    let Some(footer) = last_footer(bytes) else { return };
    let sums = row_group_sums(bytes, footer.clone());
    if let Some(location) = sums_in_footer(bytes, footer.clone()) {
        let digits: String = sums.iter().map(|sum| format!("{sum:08x}")).collect();
        if digits.len() == location.len() {
            bytes[location].copy_from_slice(digits.as_bytes());
        }
    }
    let crc = crc32fast::hash(&bytes[footer.clone()]);
    let at = footer.start - 16;
    bytes[at..at + 8].copy_from_slice(SEAL);
    bytes[at + 8..at + 12].copy_from_slice(&crc.to_le_bytes());
    bytes[at + 12..footer.start].copy_from_slice(&(footer.len() as u32).to_le_bytes());
    // The empty checkpoint at the start of every trace.
    if at >= 12 {
        bytes[..4].copy_from_slice(b"PAR1");
        bytes[4..12].copy_from_slice(SEAL);
    }
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(b"PAR1");
}

fn last_footer(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let end = bytes.len().checked_sub(8)?;
    let len = u32::from_le_bytes(bytes[end..end + 4].try_into().ok()?) as usize;
    let start = end.checked_sub(len)?;
    (len > 0 && start >= 20).then_some(start..end)
}

/// The checksums as the reader computes them; empty if the footer cannot be decoded.
fn row_group_sums(bytes: &[u8], footer: std::ops::Range<usize>) -> Vec<u32> {
    let decoded = std::panic::catch_unwind(|| ParquetMetaDataReader::decode_metadata(&bytes[footer]));
    let Ok(Ok(metadata)) = decoded else { return Vec::new() };
    let sum = |group: &parquet::file::metadata::RowGroupMetaData| {
        let start = group.file_offset().unwrap_or(0).max(0) as usize;
        let len = group.columns().iter().map(|column| column.compressed_size()).fold(0i64, i64::wrapping_add);
        let range = start..start.checked_add(len.max(0) as usize)?;
        bytes.get(range).map(crc32fast::hash)
    };
    metadata.row_groups().iter().map(|group| sum(group).unwrap_or(0)).collect()
}

/// Range of the checksum digits in the footer. Thrift's compact protocol writes the key, a field header (one byte) and the length (a
/// varint) before them.
fn sums_in_footer(bytes: &[u8], footer: std::ops::Range<usize>) -> Option<std::ops::Range<usize>> {
    let text = &bytes[footer.clone()];
    let key = text.windows(KEY.len()).rposition(|window| window == KEY)?;
    let mut at = key + KEY.len() + 1;
    let (mut len, mut shift) = (0usize, 0);
    loop {
        let byte = *text.get(at)?;
        at += 1;
        len |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 || shift > 28 {
            break;
        }
    }
    let start = footer.start + at;
    let end = start.checked_add(len)?;
    (end <= footer.end).then_some(start..end)
}
