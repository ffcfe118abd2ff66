//! Reads Parquet traces unchanged and with recomputed checksums.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use poolwright_fuzz::{cache_input, sealed, with_file};
use poolwright_mrc::input::Format;
use poolwright_trace::export::{self, Format as Exported};
use poolwright_trace::{Op, Pseudonyms, Reader, stats};

/// Limit of transferred bytes for the statistics, which visit every block of a transfer.
const MOVED: u64 = 1 << 24;

fuzz_target!(init: report_panics(), |bytes: &[u8]| {
    with_file(bytes, read);
    let mut bytes = bytes.to_vec();
    sealed::seal(&mut bytes);
    // Keeps the input of a crash as a file for other programs.
    if let Some(path) = std::env::var_os("POOLWRIGHT_FUZZ_SEALED") {
        std::fs::write(path, &bytes).expect("write the sealed trace");
    }
    with_file(&bytes, read);
    cache_input::check(&bytes, Some(Format::Trace));
});

/// libFuzzer reports every panic as a failure. Hides the panics that the trace reader catches.
fn report_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !poolwright_trace::is_decoding() {
            report(info);
        }
    }));
}

fn read(path: &Path) {
    let Ok(reader) = Reader::open(path) else { return };
    assert!(reader.good_len() <= std::fs::metadata(path).map_or(u64::MAX, |stat| stat.len()));
    let mut moved = 0u64;
    for event in reader.events().flatten() {
        assert!((event.file as usize) < reader.files().len());
        let counts = matches!(event.op, Op::Read | Op::Write);
        moved = moved.saturating_add(if counts { event.len.min(1 << 31) } else { 0 });
    }
    let mut out = Vec::new();
    let pseudonyms = Pseudonyms::new([0; Pseudonyms::KEY_BYTES]);
    for format in Exported::ALL {
        for pseudonyms in [None, Some(&pseudonyms)] {
            out.clear();
            let _ = export::export(&reader, format, pseudonyms, &mut out, path);
        }
    }
    if moved < MOVED
        && let Ok(stats) = stats::collect(&reader)
    {
        let _ = stats::render(&stats, 5);
        serde_json::to_string(&stats).expect("statistics are JSON");
    }
}
