//! Files in memory for the output of a child process.
//!
//! A pipe would have to be read while the child runs, kills a process that writes after its reader has ended, and stays open as long as any
//! background process that the child leaves.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, memfd_create};

/// Creates a file in memory. It is freed with its last descriptor.
///
/// # Errors
/// If the kernel refuses.
pub fn memory_file() -> io::Result<File> {
    Ok(memfd_create("output", MemfdFlags::CLOEXEC)?.into())
}

/// The last bytes of a file as text, at most `most`; empty if it cannot be read.
pub fn end_of(file: &File, most: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let length = file.metadata()?.len();
        let mut text = vec![0; length.min(most) as usize];
        file.read_exact_at(&mut text, length.saturating_sub(most))?;
        Ok(text)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_end_of_a_file() {
        let mut file = memory_file().unwrap();
        assert_eq!(end_of(&file, 4), "");
        file.write_all(b"abc").unwrap();
        assert_eq!(end_of(&file, 4), "abc");
        file.write_all(b"def").unwrap();
        assert_eq!(end_of(&file, 4), "cdef");
    }
}
