//! Changes the labels of a pool's image, recomputes their checksums, and imports, reads and exports the pool.
#![no_main]

use libfuzzer_sys::fuzz_target;
use poolwright_fuzz::changes;
use poolwright_fuzz::image::{self, Image};
use sha2::{Digest, Sha256};

/// Offset of the name/value list in a label. Its checksum is at its end.
const LIST: u64 = 16 << 10;
const LIST_BYTES: usize = 112 << 10;
const LABEL: u64 = 256 << 10;
/// Offsets of the four labels of a 64 MiB vdev.
const LABELS: [u64; 4] = [0, LABEL, (64 << 20) - 2 * LABEL, (64 << 20) - LABEL];
/// Length of the magic number and the checksum.
const TRAILER: usize = 40;

fuzz_target!(init: image::serve_child(), |bytes: &[u8]| {
    let image = Image::base();
    let whole = image.read(LIST, LIST_BYTES);
    let used = whole[..LIST_BYTES - TRAILER].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 16);
    assert!(used > 100, "the image has no label");
    let mut list = whole;
    changes::apply(bytes, &mut list[..used]);
    let labels = LABELS.map(|label| (label + LIST, sealed(&list, label + LIST)));
    image.open_with(&labels);
});

/// Recomputes the checksum: SHA-256 of the list, with the list's offset in the place of the checksum.
fn sealed(list: &[u8], at: u64) -> Vec<u8> {
    let mut bytes = list.to_vec();
    let checksum = LIST_BYTES - 32;
    bytes[checksum..].fill(0);
    bytes[checksum..checksum + 8].copy_from_slice(&at.to_le_bytes());
    let sum = Sha256::digest(&bytes);
    for (location, word) in bytes[checksum..].as_chunks_mut::<8>().0.iter_mut().zip(sum.as_chunks::<8>().0) {
        *location = u64::from_be_bytes(*word).to_le_bytes();
    }
    bytes
}
