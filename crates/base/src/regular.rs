//! Opening a file whose path comes from untrusted input, such as a trace.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use crate::private::Unsafe;
use crate::process;

/// Opens a regular file for reading. Refuses all other types without opening them: opening a pipe can block for ever, and
/// opening a device can have side effects (a watchdog, a tape). Follows links, because databases use them to place files.
///
/// # Errors
/// [`Unsafe::NotAFile`] if it is not a regular file; otherwise the host's errors.
pub fn open(path: &Path) -> io::Result<File> {
    open_if(path, FileType::is_file)
}

/// As [`open`], but opens block devices, too: a volume that was recorded.
///
/// # Errors
/// [`Unsafe::NotAFile`] if it is neither; otherwise the host's errors.
pub fn open_or_block_device(path: &Path) -> io::Result<File> {
    open_if(path, |kind| kind.is_file() || kind.is_block_device())
}

/// Whether there is a block device at this path.
pub fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// The length of an open regular file or block device in bytes.
///
/// # Errors
/// The host's errors.
pub fn length(mut file: &File) -> io::Result<u64> {
    let found = file.metadata()?;
    if found.file_type().is_block_device() { file.seek(SeekFrom::End(0)) } else { Ok(found.len()) }
}

fn open_if(path: &Path, is_wanted: impl Fn(FileType) -> bool) -> io::Result<File> {
    // An O_PATH descriptor refers to the file without opening it. Reopening it through /proc opens the same file.
    let named = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if !is_wanted(FileType::from_raw_mode(fstat(&named)?.st_mode)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, Unsafe::NotAFile));
    }
    File::open(process::descriptor_path(std::process::id(), named.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private::refusal;
    use std::io::Read as _;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, pipe) = (dir.path().join("file"), dir.path().join("link"), dir.path().join("pipe"));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        for path in [&file, &link] {
            let mut text = String::new();
            open(path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
        // If this opened the pipe, it would block until the test's time limit.
        for path in [&pipe, Path::new("/dev/null"), dir.path()] {
            assert_eq!(refusal(&open(path).unwrap_err()), Some(Unsafe::NotAFile), "{}", path.display());
        }
        assert_eq!(open(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
