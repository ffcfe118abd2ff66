//! `.lis` traces, plain and compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use poolwright_fuzz::cache_input;
use poolwright_mrc::input::Format;

fuzz_target!(|bytes: &[u8]| {
    cache_input::check(bytes, Some(Format::Lis));
    cache_input::check(bytes, None);
});
