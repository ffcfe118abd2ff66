//! Checksums of footers: CRC-32 (IEEE 802.3, as in gzip). The reader compares them before it decodes, and so
//! detects damaged data.

/// The start of the seal that precedes each footer of a trace: these 8 bytes, then the footer's CRC-32 and its length,
/// little endian.
pub(crate) const SEAL_MAGIC: &[u8; 8] = b"PWTRSEAL";
/// The length of a seal in bytes.
pub(crate) const SEAL_LEN: u64 = 16;

/// Returns the seal of a footer, given its Thrift bytes.
pub(crate) fn seal(footer: &[u8]) -> [u8; SEAL_LEN as usize] {
    let mut seal = [0; SEAL_LEN as usize];
    seal[..8].copy_from_slice(SEAL_MAGIC);
    seal[8..12].copy_from_slice(&crc32fast::hash(footer).to_le_bytes());
    seal[12..].copy_from_slice(&(footer.len() as u32).to_le_bytes());
    seal
}
