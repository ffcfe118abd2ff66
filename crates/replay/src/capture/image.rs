//! The captured data in memory.

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use super::ALIGN;

/// The image. Its first byte is page-aligned, so that direct I/O can use it in place.
#[derive(Default)]
pub(super) struct Image {
    raw: Vec<u8>,
    skip: usize,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.raw.len().saturating_sub(self.skip))
    }
}

impl Image {
    pub(super) fn new(len: usize) -> Image {
        let raw = vec![0; len + ALIGN as usize];
        let skip = raw.as_ptr().align_offset(ALIGN as usize);
        Image { raw, skip }
    }

    pub(super) fn all(&self) -> &[u8] {
        &self.raw[self.skip..]
    }

    pub(super) fn slice(&self, at: u64, len: u64) -> &[u8] {
        &self.raw[self.skip + at as usize..][..len as usize]
    }

    pub(super) fn slice_mut(&mut self, at: u64, len: u64) -> &mut [u8] {
        &mut self.raw[self.skip + at as usize..][..len as usize]
    }
}

/// Returns up to `want` bytes from a random place in `sources`, which are ranges of the image. Without sources,
/// generates numbered lines of text.
pub(super) fn made_up(rng: &mut ChaCha8Rng, sources: &[(u64, u64)], image: &Image, want: u64) -> Vec<u8> {
    if sources.is_empty() {
        let line =
            |rng: &mut ChaCha8Rng| format!("{:010} {:06} record\n", rng.next_u32(), rng.next_u32() % 1000);
        let mut text = String::new();
        while (text.len() as u64) < want {
            text.push_str(&line(rng));
        }
        return text.into_bytes()[..want as usize].to_vec();
    }
    let (at, len) = sources[rng.random_range(0..sources.len())];
    let n = want.min(len);
    let skip = if len > n { rng.random_range(0..=(len - n)) } else { 0 };
    image.slice(at + skip, n).to_vec()
}
