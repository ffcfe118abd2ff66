//! The labels of a pool's image, with their checksums made right: found, imported, looked at, exported.
#![no_main]

use libfuzzer_sys::fuzz_target;
use poolwright_fuzz::changes;
use poolwright_fuzz::image::{self, Image};
use sha2::{Digest, Sha256};

/// A label's list of pairs with its checksum at the end; the four labels of a vdev of this size.
const LIST: u64 = 16 << 10;
const LIST_BYTES: usize = 112 << 10;
const LABEL: u64 = 256 << 10;
const LABELS: [u64; 4] = [0, LABEL, (64 << 20) - 2 * LABEL, (64 << 20) - LABEL];
/// Magic and checksum.
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

/// The checksum is SHA-256 of the list with its own offset in the checksum's place.
fn sealed(list: &[u8], at: u64) -> Vec<u8> {
    let mut bytes = list.to_vec();
    let checksum = LIST_BYTES - 32;
    bytes[checksum..].fill(0);
    bytes[checksum..checksum + 8].copy_from_slice(&at.to_le_bytes());
    let sum = Sha256::digest(&bytes);
    for (place, word) in bytes[checksum..].as_chunks_mut::<8>().0.iter_mut().zip(sum.as_chunks::<8>().0) {
        *place = u64::from_be_bytes(*word).to_le_bytes();
    }
    bytes
}
