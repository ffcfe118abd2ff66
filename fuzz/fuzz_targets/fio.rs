//! fio's I/O logs: imported, read back, exported and imported again.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use poolwright_fuzz::with_file;
use poolwright_trace::export::{self, Format};
use poolwright_trace::import::import;
use poolwright_trace::{Error, Reader};

/// Removed by `scripts/fuzz.sh`: a crash leaves it.
fn dir() -> &'static PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        tempfile::Builder::new().prefix("poolwright-fuzz-").tempdir().expect("a directory").keep()
    })
}

fuzz_target!(|bytes: &[u8]| {
    let target = dir().join("trace.parquet");
    match with_file(bytes, |source| import(source, Some("fio-iolog"), &target)) {
        Ok((summary, _)) => again(&target, summary.events),
        Err(Error::Parse { line, why, .. }) => assert!(line > 0 && !why.is_empty()),
        Err(Error::Import { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
});

fn again(trace: &PathBuf, events: u64) {
    let reader = Reader::open(trace).expect("what was just written");
    assert_eq!(reader.len(), events);
    assert!(reader.events().all(|event| event.is_ok()));
    let mut out = Vec::new();
    let Ok(done) = export::export(&reader, Format::FioIolog, &mut out, trace) else { return };
    drop(reader);
    // Files of which nothing can be exported are left out, and an import wants an event.
    if done.events == 0 {
        return;
    }
    let second = dir().join("again.parquet");
    let imported = with_file(&out, |source| import(source, Some("fio-iolog"), &second));
    assert!(imported.expect("our own export").0.events >= done.events);
}
