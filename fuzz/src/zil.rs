//! Finds the blocks of the intent log in an image, and recomputes their checksums.
//!
//! A block starts with `zil_chain_t`: padding, the pointer to the next block, the number of bytes in use, and the checksum. The
//! checksum is Fletcher-4 over the bytes in use, with the block's sequence number in the place of the checksum. The pointer to the next
//! block contains the next sequence number, so this block's number is one less.

use crate::image::Image;

const MAGIC: u64 = 0x0210_da7a_b10c_7a11;
const LEAST: usize = 4096;
const NEXT_CHECKSUM: usize = 8 + 96;
const USED: usize = 8 + 128;
const MAGIC_AT: usize = USED + 8;
const CHECKSUM: usize = MAGIC_AT + 8;
/// Offset of the first record in a block.
pub const RECORDS: usize = 192;
const LARGEST: usize = 128 << 10;

/// A block of the log.
pub struct Block {
    /// Offset in the image.
    pub at: u64,
    /// The bytes in use, rounded up as for the checksum.
    pub bytes: Vec<u8>,
    number: [u64; 4],
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn set(bytes: &mut [u8], at: usize, words: [u64; 4]) {
    for (i, word) in words.iter().enumerate() {
        bytes[at + 8 * i..at + 8 * i + 8].copy_from_slice(&word.to_le_bytes());
    }
}

fn fletcher4(bytes: &[u8]) -> [u64; 4] {
    let [mut a, mut b, mut c, mut d] = [0u64; 4];
    for word in bytes.as_chunks::<4>().0 {
        a = a.wrapping_add(u64::from(u32::from_le_bytes(*word)));
        b = b.wrapping_add(a);
        c = c.wrapping_add(b);
        d = d.wrapping_add(c);
    }
    [a, b, c, d]
}

/// All blocks with a valid checksum.
pub fn find(image: &Image) -> Vec<Block> {
    image.offsets().filter_map(|at| block(image, at)).collect()
}

fn block(image: &Image, at: u64) -> Option<Block> {
    let head = image.read(at, LEAST);
    let used = word(&head, USED) as usize;
    if word(&head, MAGIC_AT) != MAGIC || !(RECORDS..=LARGEST).contains(&used) {
        return None;
    }
    let bytes = image.read(at, used.next_multiple_of(LEAST));
    let mut number = [0, 1, 2, 3].map(|i| word(&bytes, NEXT_CHECKSUM + 8 * i));
    number[3] = number[3].wrapping_sub(1);
    let mut block = Block { at, bytes, number };
    let before = block.bytes.clone();
    block.seal();
    (block.bytes == before).then_some(block)
}

impl Block {
    /// Recomputes the checksum.
    pub fn seal(&mut self) {
        let used = (word(&self.bytes, USED) as usize).clamp(RECORDS, self.bytes.len());
        let len = used.next_multiple_of(LEAST).min(self.bytes.len());
        self.bytes[MAGIC_AT..MAGIC_AT + 8].copy_from_slice(&MAGIC.to_le_bytes());
        set(&mut self.bytes, CHECKSUM, self.number);
        let sum = fletcher4(&self.bytes[..len]);
        set(&mut self.bytes, CHECKSUM, sum);
    }
}
