//! Parquet traces: as they are, and with their checksums made right.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use poolwright_fuzz::{cache_input, sealed, with_file};
use poolwright_mrc::input::Format;
use poolwright_trace::export::{self, Format as Exported};
use poolwright_trace::{Op, Reader, stats};

/// Bytes that are moved in what is counted block by block: the statistics visit every block of a transfer.
const MOVED: u64 = 1 << 24;

fuzz_target!(init: report_panics(), |bytes: &[u8]| {
    with_file(bytes, read);
    let mut bytes = bytes.to_vec();
    sealed::seal(&mut bytes);
    // A crash's input as a file that other programs can be given.
    if let Some(path) = std::env::var_os("POOLWRIGHT_FUZZ_SEALED") {
        std::fs::write(path, &bytes).expect("write the sealed trace");
    }
    with_file(&bytes, read);
    cache_input::check(&bytes, Some(Format::Trace));
});

/// The fuzzer takes every panic for a failure, also one that the reader catches.
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
    for format in Exported::ALL {
        out.clear();
        let _ = export::export(&reader, format, &mut out, path);
    }
    if moved < MOVED
        && let Ok(stats) = stats::collect(&reader)
    {
        let _ = stats::render(&stats, 5);
        serde_json::to_string(&stats).expect("statistics are JSON");
    }
}
