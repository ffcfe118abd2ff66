//! Imports fio's I/O logs, reads them back, exports them, and imports the export.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use poolwright_fuzz::with_file;
use poolwright_trace::export::{self, Format};
use poolwright_trace::import::import;
use poolwright_trace::{Error, Reader};

/// A temporary directory. `scripts/fuzz.sh` removes it, also after a crash.
fn dir() -> &'static PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        tempfile::Builder::new().prefix("poolwright-fuzz-").tempdir().expect("a directory").keep()
    })
}

fuzz_target!(|bytes: &[u8]| {
    let target = dir().join("trace.parquet");
    match with_file(bytes, |source| import(source, Some("fio-iolog"), &target)) {
        Ok(imported) => again(&target, imported.events),
        Err(Error::Parse { line, why, .. }) => assert!(line > 0 && !why.is_empty()),
        Err(Error::Import { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
});

fn again(trace: &PathBuf, events: u64) {
    let reader = Reader::open(trace).expect("open the imported trace");
    assert_eq!(reader.len(), events);
    assert!(reader.events().all(|event| event.is_ok()));
    let mut out = Vec::new();
    let Ok(done) = export::export(&reader, Format::FioIolog, None, &mut out, trace) else { return };
    drop(reader);
    // The export omits files with no exportable operation, and an import needs at least one event.
    if done.events == 0 {
        return;
    }
    let second = dir().join("again.parquet");
    let imported = with_file(&out, |source| import(source, Some("fio-iolog"), &second));
    assert!(imported.expect("import the export").events >= done.events);
}
