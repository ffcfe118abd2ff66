use super::*;
use crate::END;

const BYTES: Unit = Unit::Bytes { recordsize: 4096 };

fn extent(kind: Kind, file: u32, offset: u64, len: u64) -> Extent {
    Extent { t_ns: 7_000_000, file, offset, len, kind }
}

fn all(stream: &mut RecordStream, extents: &[Extent]) -> Vec<Access> {
    let mut found = Vec::new();
    stream
        .each(extents, |accesses, _| {
            found.extend_from_slice(accesses);
            Ok(())
        })
        .unwrap();
    found
}

#[test]
fn records_are_numbered_sized_and_freed() {
    let sizes: Sizes = Box::new(|file, index, bytes| bytes / 2 + file * 100 + index as u32);
    let mut stream = RecordStream::new(BYTES, None).unwrap().with_sizes(Some(sizes));
    let read = |record, bytes| Access { record, bytes, t_ms: 7, kind: Kind::Read };
    let found = all(
        &mut stream,
        &[extent(Kind::Read, 1, 4096, 8192), extent(Kind::Read, 0, 0, 1), extent(Kind::Read, 1, 8192, 1)],
    );
    assert_eq!(found, [read(0, 2149), read(1, 2150), read(2, 2048), read(1, 2150)]);
    assert_eq!(stream.keys(), [1 << 40 | 1, 1 << 40 | 2, 0]);
    let freed = all(&mut stream, &[extent(Kind::Free, 1, 0, END), extent(Kind::Free, 5, 0, END)]);
    assert_eq!(
        freed.iter().map(|a| (a.record, a.kind)).collect::<Vec<_>>(),
        [(0, Kind::Free), (1, Kind::Free)]
    );
    assert_eq!(stream.requests(), 4);
}

#[test]
fn a_long_extent_spans_chunks_and_a_far_one_is_counted() {
    let mut stream = RecordStream::new(BYTES, Some(512)).unwrap();
    let extents = [
        extent(Kind::Read, 0, 0, 64 << 20),
        extent(Kind::Read, 0, 1 << 50, 1),
        extent(Kind::Read, 0, 0, 512),
    ];
    let mut chunks = Vec::new();
    stream
        .each(&extents, |accesses, _| {
            chunks.push(accesses.len());
            Ok(())
        })
        .unwrap();
    assert_eq!(chunks, [1 << 17, 1]);
    assert_eq!(stream.too_far(), 1);
    // A free of a few records among many, and of many among few: both free exactly the known records.
    assert_eq!(all(&mut stream, &[extent(Kind::Free, 0, 512, 1024)]).len(), 2);
    let mut few = RecordStream::new(BYTES, Some(512)).unwrap();
    all(
        &mut few,
        &[extent(Kind::Read, 0, 0, 512), extent(Kind::Read, 0, 1 << 40, 512), extent(Kind::Read, 1, 0, 512)],
    );
    let freed = all(&mut few, &[extent(Kind::Free, 0, 512, END - 512)]);
    assert_eq!(freed.iter().map(|a| a.record).collect::<Vec<_>>(), [1]);
}
