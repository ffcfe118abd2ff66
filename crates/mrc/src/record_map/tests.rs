use proptest::prelude::*;

use super::*;
use crate::access::{file_of, index_of};

const K: u64 = 1024;

fn extent(kind: Kind, offset: u64, len: u64) -> Extent {
    Extent { t_ns: 0, file: 3, offset, len, kind }
}

/// A free that sets the end of the file.
fn ends(at: u64) -> Extent {
    extent(Kind::Free, at, END - at)
}

/// Index, bytes and kind of each record.
fn cut(record_map: &mut RecordMap, extent: Extent) -> Vec<(u64, u32, Kind)> {
    let mut all = Vec::new();
    record_map.split(&extent, |cut| {
        assert_eq!(file_of(cut.key), u64::from(extent.file));
        all.push((index_of(cut.key), cut.bytes, cut.kind));
    });
    all
}

#[test]
fn whole_records_are_written_and_parts_updated() {
    let mut record_map = RecordMap::records(8 * K).unwrap();
    let write = cut(&mut record_map, extent(Kind::Write, 4 * K, 20 * K));
    assert_eq!(write, [(0, 8192, Kind::Update), (1, 8192, Kind::Write), (2, 8192, Kind::Write)]);
    let read = cut(&mut record_map, extent(Kind::Read, 8 * K - 1, 2));
    assert_eq!(read, [(0, 8192, Kind::Read), (1, 8192, Kind::Read)]);
    assert_eq!(record_map.split(&extent(Kind::Write, 5, 0), |_| panic!("no byte")), Touched::Nothing);
}

#[test]
fn writes_where_no_data_was_read_nothing() {
    let mut record_map = RecordMap::records(8 * K).unwrap();
    assert_eq!(record_map.split(&ends(16 * K), |_| ()), Touched::Nothing);
    // At the end: a new record, then a part of an existing one.
    assert_eq!(cut(&mut record_map, extent(Kind::Write, 16 * K, K)), [(2, 8192, Kind::Write)]);
    assert_eq!(cut(&mut record_map, extent(Kind::Write, 17 * K, K)), [(2, 8192, Kind::Update)]);
    // Far beyond the end, and the gap that this leaves.
    assert_eq!(cut(&mut record_map, extent(Kind::Write, 80 * K, K)), [(10, 8192, Kind::Write)]);
    // Truncated, and written again.
    assert_eq!(record_map.split(&ends(8 * K), |_| ()), Touched::Freed(3 << 40 | 1, 3 << 40 | 10));
    assert_eq!(cut(&mut record_map, extent(Kind::Write, 17 * K, K)), [(2, 8192, Kind::Write)]);
    assert_eq!(cut(&mut record_map, extent(Kind::Write, K, K)), [(0, 8192, Kind::Update)]);
}

#[test]
fn a_file_below_one_record_has_one_block_of_its_size() {
    let mut record_map = RecordMap::records(128 * K).unwrap();
    record_map.split(&ends(0), |_| ());
    assert_eq!(cut(&mut record_map, extent(Kind::Write, 0, 100)), [(0, 512, Kind::Write)]);
    // The file grows: its data is copied into the larger block.
    assert_eq!(cut(&mut record_map, extent(Kind::Write, 0, 5000)), [(0, 5120, Kind::Update)]);
    assert_eq!(cut(&mut record_map, extent(Kind::Write, 0, 5120)), [(0, 5120, Kind::Write)]);
    assert_eq!(cut(&mut record_map, extent(Kind::Write, 0, 5119)), [(0, 5120, Kind::Update)]);
    assert_eq!(cut(&mut record_map, extent(Kind::Write, 128 * K, 1)), [(1, 131072, Kind::Write)]);
    // A file that had more than one block keeps its block size.
    record_map.split(&ends(100), |_| ());
    assert_eq!(cut(&mut record_map, extent(Kind::Read, 0, 100)), [(0, 131072, Kind::Read)]);
}

#[test]
fn frees_cover_whole_known_records() {
    let mut record_map = RecordMap::records(4 * K).unwrap();
    cut(&mut record_map, extent(Kind::Read, 0, 40 * K));
    let key = |index: u64| key(3, index);
    assert_eq!(record_map.split(&extent(Kind::Free, K, 15 * K), |_| ()), Touched::Freed(key(1), key(3)));
    assert_eq!(record_map.split(&extent(Kind::Free, K, 2 * K), |_| ()), Touched::Nothing);
    assert_eq!(record_map.split(&ends(39 * K), |_| ()), Touched::Nothing);
    assert_eq!(record_map.split(&ends(0), |_| ()), Touched::Freed(key(0), key(9)));
    assert_eq!(record_map.split(&ends(0), |_| ()), Touched::Nothing);
}

#[test]
fn offsets_beyond_a_key_are_refused() {
    let far = |recordsize: u64, file: u32, offset: u64, len: u64| {
        let extent = Extent { t_ns: 0, file, offset, len, kind: Kind::Read };
        RecordMap::records(recordsize).unwrap().split(&extent, |_| ())
    };
    assert_eq!(far(512, 0, (1 << 49) - 512, 512), Touched::Records);
    assert_eq!(far(512, 0, (1 << 49) - 512, 513), Touched::TooFar);
    assert_eq!(far(1 << 20, 0, END - 1, 1), Touched::Records);
    assert_eq!(far(1 << 20, 0, END, 1), Touched::TooFar);
    assert_eq!(far(1 << 20, 0, u64::MAX, u64::MAX), Touched::TooFar);
    assert_eq!(far(1 << 20, 1 << 24, 0, 1), Touched::TooFar);
    for bad in [0, 256, 1000, 32 << 20, u64::MAX] {
        assert!(RecordMap::records(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_object_is_a_record_of_its_own_size() {
    let mut record_map = RecordMap::objects();
    let object = Extent { t_ns: 0, file: 0, offset: u64::MAX - 1, len: 77, kind: Kind::Read };
    let mut cuts = Vec::new();
    assert_eq!(record_map.split(&object, |cut| cuts.push(cut)), Touched::Records);
    assert_eq!(cuts, [Cut { key: u64::MAX - 1, bytes: 77, kind: Kind::Read }]);
    let free = Extent { kind: Kind::Free, ..object };
    assert_eq!(record_map.split(&free, |_| ()), Touched::Freed(u64::MAX - 1, u64::MAX - 1));
}

proptest! {
    /// Compared with a naive file: a list of sectors that hold data or not.
    #[test]
    fn updates_are_the_writes_that_have_to_read(
        start in 0..64u64,
        steps in prop::collection::vec((0..3u8, 0..96u64, 1..24u64), 1..60),
    ) {
        let record = 8; // sectors
        let mut record_map = RecordMap::records(record * SECTOR).unwrap();
        // More than one block from the start, so that all blocks have one size.
        let mut sectors = vec![true; (start + record + 1) as usize];
        record_map.split(&ends(sectors.len() as u64 * SECTOR), |_| ());
        for (what, offset, len) in steps {
            let kind = [Kind::Read, Kind::Write, Kind::Free][what as usize];
            if kind == Kind::Free {
                let at = offset.min(sectors.len() as u64);
                record_map.split(&ends(at * SECTOR), |_| ());
                sectors.truncate(at as usize);
                continue;
            }
            let found = cut(&mut record_map, extent(kind, offset * SECTOR, len * SECTOR));
            let mut wanted = Vec::new();
            for index in offset / record..=(offset + len - 1) / record {
                let (low, high) = (index * record, (index + 1) * record);
                let whole = offset <= low && offset + len >= high;
                let there = low < sectors.len() as u64;
                wanted.push((index, 4096, match kind {
                    Kind::Read => Kind::Read,
                    _ if whole || !there => Kind::Write,
                    _ => Kind::Update,
                }));
            }
            prop_assert_eq!(found, wanted);
            let length = sectors.len().max((offset + len) as usize);
            sectors.resize(length, true);
        }
    }
}
