//! Traces found by the fuzzer, with valid seals and checksums. The reader must refuse them without panicking.

use std::path::Path;

use poolwright_trace::{Error, Reader, stats};

#[test]
fn pages_that_no_writer_makes_are_refused() {
    for name in ["no-dictionary", "short-page"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/hostile/{name}.parquet"));
        let reader = Reader::open(&path).unwrap();
        let damage: Vec<Error> = reader.events().filter_map(Result::err).collect();
        assert!(!damage.is_empty(), "{name}");
        for error in damage {
            assert!(matches!(error, Error::Corrupt { .. }), "{name}: {error:?}");
            assert!(error.to_string().contains("row group 0: "), "{name}: {error}");
        }
        assert!(stats::collect(&reader).is_err(), "{name}");
        assert!(!poolwright_trace::is_decoding(), "a panic from now on is a defect again");
    }
}
