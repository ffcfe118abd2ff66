//! Interprets an input as a list of changes to a buffer.

/// Applies the changes in `input` to `bytes`. A change has 12 bytes: three give the position (modulo the length), one the kind of
/// change and the width of the field, eight the value. Values near the limits of lengths and offsets are more frequent than in
/// random data.
pub fn apply(input: &[u8], bytes: &mut [u8]) {
    for change in input.as_chunks::<12>().0 {
        let location = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % bytes.len();
        let value = u64::from_le_bytes(change[4..].try_into().expect("eight bytes"));
        let width = [1, 2, 4, 8][usize::from(change[3] & 3)];
        let location = location / width * width;
        let Some(field) = bytes.get_mut(location..location + width) else { continue };
        let mut old = [0; 8];
        old[..width].copy_from_slice(field);
        let old = u64::from_le_bytes(old);
        let new = match change[3] >> 2 & 7 {
            0 | 1 => value,
            2 => old.wrapping_add(value & 0xff),
            3 => old.wrapping_sub(value & 0xff),
            4 => old ^ 1 << (value & 63),
            5 => INTERESTING[value as usize % INTERESTING.len()],
            6 => old.swap_bytes(),
            _ => !old,
        };
        field.copy_from_slice(&new.to_le_bytes()[..width]);
    }
}

const INTERESTING: [u64; 12] =
    [0, 1, 7, 192, 4095, 4096, 128 << 10, 0x7fff_ffff, 0xffff_ffff, 1 << 48, i64::MAX as u64, u64::MAX];
