//! Reads a trace as `poolwright mrc` does, and checks the guarantees on which the cache models rely.

use std::path::Path;

use poolwright_mrc::input::{self, Format, LONGEST, Select};
use poolwright_mrc::{END, Error, Extent, Kind, RecordStream};

/// Number of chunks to check. A few bytes of zstd can decompress to terabytes, and all chunks are read in the same way.
const CHUNKS: usize = 4;
/// Limit of the records of a chunk: an extent of 2 GiB has four million of the smallest records.
const RECORDS: u64 = 1 << 16;

/// Reads `bytes` in the given format, or in the format that is detected from the contents.
pub fn check(bytes: &[u8], format: Option<Format>) {
    let done = crate::with_file(bytes, |path| read(path, format));
    match done {
        Ok(()) => {}
        Err(Error::UnknownFormat { .. } | Error::Empty(_)) => assert!(format.is_none()),
        Err(Error::Malformed { location, why, .. }) => assert!(!location.is_empty() && !why.is_empty()),
        Err(Error::Trace(error)) => assert!(!error.to_string().is_empty()),
        Err(error) => panic!("{format:?}: {error:?}"),
    }
}

fn read(path: &Path, format: Option<Format>) -> Result<(), Error> {
    let mut input = input::open(path, format, &Select::default())?;
    let mut stream = RecordStream::new(input.unit(), Some(1 << 20))?;
    let (mut chunk, mut last_ns) = (Vec::new(), 0);
    for _ in 0..CHUNKS {
        input.read(&mut chunk)?;
        if chunk.is_empty() {
            break;
        }
        assert!(chunk.is_sorted_by_key(|extent| extent.t_ns) && chunk[0].t_ns >= last_ns);
        last_ns = chunk[chunk.len() - 1].t_ns;
        chunk.iter().for_each(assert_valid);
        assert!(input.progress().is_none_or(|share| (0.0..=1.0).contains(&share)));
        cut(&mut stream, &chunk)?;
    }
    let _ = (input.skipped().counts(), input.duration_ns());
    Ok(())
}

fn cut(stream: &mut RecordStream, chunk: &[Extent]) -> Result<(), Error> {
    let mut records = 0;
    let few = chunk.iter().take_while(|extent| {
        records += if extent.kind == Kind::Free { 1 } else { extent.len >> 20 };
        records < RECORDS
    });
    let few: Vec<Extent> = few.copied().collect();
    stream.each(&few, |_, _| Ok(()))
}

fn assert_valid(extent: &Extent) {
    assert!(extent.len > 0, "{extent:?}");
    assert!(extent.kind == Kind::Free || extent.len <= LONGEST, "{extent:?}");
    // The id of an object can have any value.
    let end = extent.offset.checked_add(extent.len);
    assert!(end.is_none_or(|end| end <= END || extent.file == 0), "{extent:?}");
}
