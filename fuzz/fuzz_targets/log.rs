//! Records of the intent log in a pool's image, with the checksums of their blocks made right.
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
    // Mostly records; every eighth time the block's own head, too.
    let from = if choice & 7 == 7 { 0 } else { zil::RECORDS };
    changes::apply(bytes, &mut block.bytes[from..]);
    block.seal();
    image.open_with(&[(block.at, std::mem::take(&mut block.bytes))]);
});
