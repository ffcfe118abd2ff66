//! The extents of a file that contain data.

use std::fs::File;
use std::io;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// The next extent with data at or after `at`, of a file of this length: its start and its end.
///
/// # Errors
/// The host's errors.
pub fn next_data(file: &File, at: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= length {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // The file system does not report holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Some((at, length))),
        Err(why) => return Err(why.into()),
    };
    let end = seek(file, SeekFrom::Hole(start)).unwrap_or(length);
    Ok(Some((start, end.min(length))).filter(|(start, end)| start < end))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn holes_are_skipped() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"begin", 0).unwrap();
        file.write_all_at(b"end", 8 << 20).unwrap();
        let length = file.metadata().unwrap().len();
        let (mut at, mut extents) = (0, Vec::new());
        while let Some((start, end)) = next_data(&file, at, length).unwrap() {
            extents.push((start, end));
            at = end;
        }
        assert_eq!(extents.first().unwrap().0, 0);
        assert_eq!(extents.last().unwrap().1, length);
        assert_eq!(next_data(&file, length, length).unwrap(), None);
    }
}
