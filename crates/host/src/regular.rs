//! Opens a file whose path was read from somewhere, such as a trace.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use crate::private::Unsafe;

/// Opens a regular file for reading. Anything else is refused without being opened: a pipe would block for ever, and
/// opening a device can have effects of its own (a watchdog, a tape). Links are followed, because databases place files by
/// links.
///
/// # Errors
/// With [`Unsafe::NotAFile`] if it is not a regular file; as the host says.
pub fn open(path: &Path) -> io::Result<File> {
    // A path descriptor names the file without opening it; what is opened then is that very file.
    let named = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if !FileType::from_raw_mode(fstat(&named)?.st_mode).is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, Unsafe::NotAFile));
    }
    File::open(format!("/proc/self/fd/{}", named.as_raw_fd()))
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
        // Were the pipe opened, this would block and run into the time limit of tests.
        for path in [&pipe, Path::new("/dev/null"), dir.path()] {
            assert_eq!(refusal(&open(path).unwrap_err()), Some(Unsafe::NotAFile), "{}", path.display());
        }
        assert_eq!(open(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
