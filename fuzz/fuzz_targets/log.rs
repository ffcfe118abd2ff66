//! Changes records of the intent log in a pool's image, recomputes the checksums of their blocks, and opens the pool.
#![no_main]

use libfuzzer_sys::fuzz_target;
use poolwright_fuzz::image::{self, Image};
use poolwright_fuzz::{changes, zil};

fuzz_target!(init: image::serve_child(), |bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let image = Image::base();
    let mut blocks = zil::find(image);
    assert!(!blocks.is_empty(), "the image has no log");
    let chosen = usize::from(*choice) % blocks.len();
    let block = &mut blocks[chosen];
    // One input in eight may also change the header of the block.
    let from = if choice & 7 == 7 { 0 } else { zil::RECORDS };
    changes::apply(bytes, &mut block.bytes[from..]);
    block.seal();
    image.open_with(&[(block.at, std::mem::take(&mut block.bytes))]);
});
