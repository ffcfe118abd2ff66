//! Checksums of row groups and footers: CRC-32 (IEEE 802.3, as in gzip). The reader compares them before it decodes, and so
//! detects damaged data.

/// Returns the CRC-32 of `bytes`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The start of the seal that precedes each footer of a trace: these 8 bytes, then the footer's CRC-32 and its length,
/// little endian.
pub(crate) const SEAL_MAGIC: &[u8; 8] = b"PWTRSEAL";
/// The length of a seal in bytes.
pub(crate) const SEAL_LEN: u64 = 16;

/// Returns the seal of a footer, given its Thrift bytes.
pub(crate) fn seal(footer: &[u8]) -> [u8; SEAL_LEN as usize] {
    let mut seal = [0; SEAL_LEN as usize];
    seal[..8].copy_from_slice(SEAL_MAGIC);
    seal[8..12].copy_from_slice(&crc32(footer).to_le_bytes());
    seal[12..].copy_from_slice(&(footer.len() as u32).to_le_bytes());
    seal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard_comes_out() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
