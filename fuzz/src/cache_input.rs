//! Reads a trace as `poolwright mrc` does, and checks what the models rely on.

use std::path::Path;

use poolwright_mrc::input::{self, Format, LONGEST, Select};
use poolwright_mrc::{END, Error, Kind, Lane, Piece};

/// Chunks that are looked at: a few bytes packed by zstd can unpack to terabytes, and every chunk is read alike.
const CHUNKS: usize = 4;
/// Records that pieces are cut into: one of 2 GiB has four million of the smallest.
const RECORDS: u64 = 1 << 16;

/// Reads `bytes` as that format, or as whatever they look like.
pub fn check(bytes: &[u8], format: Option<Format>) {
    let done = crate::with_file(bytes, |path| read(path, format));
    match done {
        Ok(()) => {}
        Err(Error::UnknownFormat { .. }) => assert!(format.is_none()),
        Err(Error::Malformed { place, why, .. }) => assert!(!place.is_empty() && !why.is_empty()),
        Err(Error::Trace(error)) => assert!(!error.to_string().is_empty()),
        Err(error) => panic!("{format:?}: {error:?}"),
    }
}

fn read(path: &Path, format: Option<Format>) -> Result<(), Error> {
    let mut input = input::open(path, format, &Select::default())?;
    let mut lane = Lane::new(input.unit(), Some(1 << 20))?;
    let (mut chunk, mut last_ns) = (Vec::new(), 0);
    for _ in 0..CHUNKS {
        input.read(&mut chunk)?;
        if chunk.is_empty() {
            break;
        }
        assert!(chunk.is_sorted_by_key(|piece| piece.t_ns) && chunk[0].t_ns >= last_ns);
        last_ns = chunk[chunk.len() - 1].t_ns;
        chunk.iter().for_each(possible);
        assert!(input.progress().is_none_or(|share| (0.0..=1.0).contains(&share)));
        cut(&mut lane, &chunk)?;
    }
    let _ = (input.skipped().counts(), input.duration_ns());
    Ok(())
}

fn cut(lane: &mut Lane, chunk: &[Piece]) -> Result<(), Error> {
    let mut records = 0;
    let few = chunk.iter().take_while(|piece| {
        records += if piece.kind == Kind::Free { 1 } else { piece.len >> 20 };
        records < RECORDS
    });
    let few: Vec<Piece> = few.copied().collect();
    while lane.cut(&few)? {}
    Ok(())
}

fn possible(piece: &Piece) {
    assert!(piece.len > 0, "{piece:?}");
    assert!(piece.kind == Kind::Free || piece.len <= LONGEST, "{piece:?}");
    // An object's id may be anything.
    let end = piece.offset.checked_add(piece.len);
    assert!(end.is_none_or(|end| end <= END || piece.file == 0), "{piece:?}");
}
