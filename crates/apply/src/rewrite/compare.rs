//! Comparing and equalizing the data of two files.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;

use poolwright_base::extents::next_data;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// The number of bytes that are compared at a time.
pub const CHUNK: usize = 1 << 20;

/// Two buffers of [`CHUNK`] bytes.
#[derive(Debug)]
pub struct Buffers {
    pub(super) first: Vec<u8>,
    second: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers { first: vec![0; CHUNK], second: vec![0; CHUNK] }
    }
}

/// The first position at which the files differ, up to `length`. Holes count as zeros, and common holes are skipped. `proceed`
/// is called with the number of bytes compared at a time; if it returns an error, the comparison ends with it.
///
/// # Errors
/// The host's errors, and those of `proceed`.
pub fn difference<E: From<io::Error>>(
    a: &File,
    b: &File,
    length: u64,
    buffers: &mut Buffers,
    mut proceed: impl FnMut(u64) -> Result<(), E>,
) -> Result<Option<u64>, E> {
    let mut first = None;
    each_difference(a, b, length, buffers, &mut proceed, |x, y, start| {
        let offset = x.iter().zip(y).position(|(x, y)| x != y).unwrap_or(0);
        first = Some(start + offset as u64);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(first)
}

/// Writes the parts of `from` that differ into `to`, which has the same length.
///
/// # Errors
/// The host's errors, and those of `proceed`.
pub fn equalize<E: From<io::Error>>(
    from: &File,
    to: &File,
    length: u64,
    buffers: &mut Buffers,
    mut proceed: impl FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    each_difference(from, to, length, buffers, &mut proceed, |wanted, _, start| {
        match wanted.iter().all(|byte| *byte == 0) {
            true => punch(to, wanted, start)?,
            false => to.write_all_at(wanted, start)?,
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Calls `on_difference` with the two contents and their position, for each piece in which the files differ.
fn each_difference<E: From<io::Error>>(
    a: &File,
    b: &File,
    length: u64,
    buffers: &mut Buffers,
    proceed: &mut impl FnMut(u64) -> Result<(), E>,
    mut on_difference: impl FnMut(&[u8], &[u8], u64) -> io::Result<ControlFlow<()>>,
) -> Result<(), E> {
    let (mut in_a, mut in_b) = (DataRanges::new(a, length), DataRanges::new(b, length));
    let mut at = 0;
    while let Some(start) = next_in_either(&mut in_a, &mut in_b, at)? {
        let size = chunk(start, length);
        let (x, y) = (&mut buffers.first[..size], &mut buffers.second[..size]);
        read_full(a, x, start)?;
        read_full(b, y, start)?;
        if x != y && on_difference(x, y, start)?.is_break() {
            break;
        }
        at = start + size as u64;
        proceed(size as u64)?;
    }
    Ok(())
}

/// Makes a hole, or writes the zeros if the file system has none.
fn punch(file: &File, zeros: &[u8], at: u64) -> io::Result<()> {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(file, how, at, zeros.len() as u64) {
        Err(Errno::NOTSUP | Errno::NOSYS) => file.write_all_at(zeros, at),
        punched => Ok(punched?),
    }
}

/// The ranges of a file that contain data. The last one found is kept, because OpenZFS waits for a transaction group before it
/// finds one in a file that was just written.
struct DataRanges<'a> {
    file: &'a File,
    length: u64,
    /// The first range that ends after the last requested position.
    range: Option<(u64, u64)>,
}

impl<'a> DataRanges<'a> {
    fn new(file: &'a File, length: u64) -> DataRanges<'a> {
        // Reading a short file is cheaper than finding its holes.
        let known = if length <= CHUNK as u64 { length } else { 0 };
        DataRanges { file, length, range: Some((0, known)) }
    }

    /// The first position with data at or after `at`, which is not before that of the last call.
    fn next(&mut self, at: u64) -> io::Result<Option<u64>> {
        if self.range.is_some_and(|(_, end)| end <= at) {
            self.range = next_data(self.file, at, self.length)?;
        }
        Ok(self.range.map(|(start, _)| start.max(at)))
    }
}

fn next_in_either(a: &mut DataRanges<'_>, b: &mut DataRanges<'_>, at: u64) -> io::Result<Option<u64>> {
    let first = a.next(at)?;
    if first == Some(at) {
        return Ok(first);
    }
    Ok(first.into_iter().chain(b.next(at)?).min())
}

fn chunk(at: u64, length: u64) -> usize {
    usize::try_from(length - at).map_or(CHUNK, |left| left.min(CHUNK))
}

/// Reads into the whole buffer; what is beyond the end of the file counts as zeros.
fn read_full(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    buffer[done..].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A sparse file with these pieces.
    fn sparse(length: u64, pieces: &[(u64, u8)]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        for (at, byte) in pieces.iter().filter(|(at, _)| *at < length) {
            let size = (length - at).min(5000);
            file.write_all_at(&vec![*byte; size as usize], *at).unwrap();
        }
        file
    }

    fn differs(a: &File, b: &File, length: u64) -> Option<u64> {
        difference::<io::Error>(a, b, length, &mut Buffers::default(), |_| Ok(())).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equalized_files_are_equal(
            length in 1_u64..(6 << 20),
            from in prop::collection::vec((0_u64..(6 << 20), 0_u8..3), 0..6),
            to in prop::collection::vec((0_u64..(6 << 20), 0_u8..3), 0..6),
        ) {
            let (a, b) = (sparse(length, &from), sparse(length, &to));
            let content = |file: &File| {
                let mut bytes = vec![0; length as usize];
                read_full(file, &mut bytes, 0).unwrap();
                bytes
            };
            let first = content(&a).iter().zip(content(&b)).position(|(x, y)| *x != y).map(|at| at as u64);
            prop_assert_eq!(differs(&a, &b, length), first);
            equalize::<io::Error>(&a, &b, length, &mut Buffers::default(), |_| Ok(())).unwrap();
            prop_assert_eq!(differs(&a, &b, length), None);
            prop_assert!(content(&a) == content(&b));
            prop_assert_eq!(b.metadata().unwrap().len(), length);
        }
    }

    #[test]
    fn a_comparison_can_be_stopped() {
        let (a, b) = (sparse(4 << 20, &[(0, 1), (3 << 20, 1)]), sparse(4 << 20, &[(0, 1), (3 << 20, 2)]));
        let stopped = difference(&a, &b, 4 << 20, &mut Buffers::default(), |_| Err(io::Error::other("stop")));
        assert!(stopped.is_err());
        assert_eq!(differs(&a, &b, 4 << 20), Some(3 << 20));
    }
}
