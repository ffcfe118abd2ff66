//! CRC-32 (IEEE 802.3, reflected, as in gzip). The reader compares it before it decodes a row group or footer, and so
//! detects damaged data.

const POLYNOMIAL: u32 = 0xedb8_8320;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Returns the CRC-32 of `bytes`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
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
