//! Reading any bytes ends with valid extents, or with an error that has a position.

use std::path::Path;

use crate::common::{END, event, oracle_bytes, read, save_trace};
use poolwright_mrc::input::{self, Format, LONGEST, Select};
use poolwright_mrc::{Error, Extent, Kind, RecordStream};
use poolwright_trace::Op;
use proptest::prelude::*;

/// Reads `bytes` as every format, and splits the extents into records.
fn reads_or_refuses(bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fuzzed");
    std::fs::write(&path, bytes).unwrap();
    for format in [None, Some(Format::Lis), Some(Format::OracleGeneral), Some(Format::Trace)] {
        match all(&path, format) {
            Ok(()) => {}
            Err(Error::UnknownFormat { .. } | Error::Empty(_)) => assert!(format.is_none()),
            Err(Error::Malformed { location, why, .. }) => assert!(!location.is_empty() && !why.is_empty()),
            Err(Error::Trace(error)) => assert!(!error.to_string().is_empty()),
            Err(error) => panic!("{format:?}: {error:?}"),
        }
    }
}

fn all(path: &Path, format: Option<Format>) -> Result<(), Error> {
    let mut input = input::open(path, format, &Select::default())?;
    let extents = read(&mut *input)?;
    assert!(extents.is_sorted_by_key(|extent| extent.t_ns));
    extents.iter().for_each(possible);
    assert!(input.progress().is_none_or(|share| (0.0..=1.0).contains(&share)));
    // Only a few records of each; another test covers extents of 2 GiB.
    let mut stream = RecordStream::new(input.unit(), Some(1 << 20))?;
    stream.each(&extents, |_, _| Ok(()))
}

fn possible(extent: &Extent) {
    assert!(extent.len > 0, "{extent:?}");
    if extent.kind != Kind::Free {
        assert!(extent.len <= LONGEST, "{extent:?}");
    }
    // An object's id can have any value.
    let end = extent.offset.checked_add(extent.len);
    assert!(end.is_none_or(|end| end <= END || extent.file == 0), "{extent:?}");
}

/// Bytes of which some are changed, removed, or truncated.
fn damaged(whole: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let flips = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (flips, any::<prop::sample::Index>(), any::<bool>()).prop_map(move |(flips, cut, cuts)| {
        let mut bytes = whole.clone();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes
    })
}

fn lis() -> Vec<u8> {
    (0..200u64).flat_map(|n| format!("{} {} 0 {n}\n", n * 7919 % 977, 1 + n % 5).into_bytes()).collect()
}

fn oracle() -> Vec<u8> {
    let record = |n: u32| (n / 3, u64::from(n * 7919 % 97), 512 << (n % 5), i64::from(n) + 40);
    oracle_bytes(&(0..300).map(record).collect::<Vec<_>>())
}

fn trace() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let ops =
        [Op::Open, Op::Read, Op::Write, Op::Read, Op::Truncate, Op::Punch, Op::Unlink, Op::Close, Op::Rename];
    let event = |n: u64| event(n, ops[n as usize % 9], n as u32 % 3, n * 512 % 8192, 512);
    let files = [("/db/a", "data", 8192), ("/db/b", "wal", 512), ("/db/c", "", 0)];
    save_trace(&path, &files, &(0..300).map(event).collect::<Vec<_>>());
    std::fs::read(path).unwrap()
}

fn packed(bytes: Vec<u8>) -> Vec<u8> {
    zstd::encode_all(&bytes[..], 1).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_bytes(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..600),
        "[0-9 \\n\\r\\t.x-]{0,300}".prop_map(String::into_bytes),
    ]) {
        reads_or_refuses(&bytes);
    }

    #[test]
    fn a_damaged_file(bytes in prop_oneof![
        damaged(lis()),
        damaged(oracle()),
        damaged(packed(lis())),
        damaged(packed(oracle())),
        damaged(trace()),
    ]) {
        reads_or_refuses(&bytes);
    }

    /// Undamaged input is read as it was written, in any steps.
    #[test]
    fn what_is_written_is_read(
        lines in prop::collection::vec((0..1u64 << 40, 1..4096u64), 0..400),
        pack in any::<bool>(),
    ) {
        let text: String = lines.iter().map(|(first, blocks)| format!("{first} {blocks} 0 0\n")).collect();
        let mut bytes = text.into_bytes();
        prop_assume!(!bytes.is_empty());
        if pack {
            bytes = packed(bytes);
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.lis");
        std::fs::write(&path, bytes).unwrap();
        let mut input = input::open(&path, None, &Select::default()).unwrap();
        let found: Vec<_> = read(&mut *input).unwrap().iter().map(|p| (p.offset / 512, p.len / 512)).collect();
        prop_assert_eq!(found, lines);
    }

    /// Any operations on files, in any order, become valid extents.
    #[test]
    fn any_history(
        steps in prop::collection::vec(
            (0..13usize, 0..4u32, prop_oneof![0..1u64 << 20, Just(i64::MAX as u64), 0..i64::MAX as u64], 0..1u64 << 33, 0..9u64),
            0..200,
        ),
        sizes in prop::collection::vec(any::<u64>(), 4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let events: Vec<_> =
            steps.iter().map(|&(op, file, offset, len, t)| event(t, Op::ALL[op], file, offset, len)).collect();
        let files: Vec<_> = sizes.iter().map(|size| ("/f", "data", *size)).collect();
        save_trace(&path, &files, &events);
        all(&path, None).unwrap();
    }
}
