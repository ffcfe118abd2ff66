//! Random sizes and bytes. A seed gives the same sequence on the host and in the guest.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

pub struct Random(ChaCha8Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(ChaCha8Rng::seed_from_u64(seed))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0.random_range(0..n)
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// Mostly small, now and then up to 4 MiB: each size class as likely as the next within a choice of classes.
    pub fn length(&mut self) -> usize {
        let bits = match self.below(200) {
            0..=9 => return 0,
            10..=159 => 1 + self.below(12),
            160..=195 => 12 + self.below(4),
            _ => 16 + self.below(6),
        };
        (1 << bits) + self.below(1 << bits) as usize
    }

    /// Bytes that compress, but not away; every fourth time ones that do not.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 16);
        let noise = self.below(4) == 0;
        while out.len() < len {
            let word = self.below(1 << 31);
            if noise {
                out.extend_from_slice(&(word as u32).to_le_bytes());
            } else {
                out.extend_from_slice(format!("record {} ", word % 1000).as_bytes());
            }
        }
        out.truncate(len);
        out
    }
}
