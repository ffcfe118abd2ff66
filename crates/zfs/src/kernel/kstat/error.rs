//! Errors of reading kstat files, and reading with a limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use poolwright_base::{PathError, cannot};

use super::MAX_FILE;

/// A kstat file that exists and cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KstatError {
    /// The host reported an error.
    #[error(transparent)]
    Read(#[from] PathError),
    /// The file is larger than [`MAX_FILE`].
    #[error("{} has more than {} MiB", path.display(), MAX_FILE >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The content is not that of such a file.
    #[error("{}, line {line}: {cause}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The defect.
        cause: String,
    },
}

/// A line of a kstat file that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct MalformedKstat {
    /// The line, counted from 1.
    pub line: usize,
    /// The defect.
    pub cause: String,
}

impl MalformedKstat {
    pub(super) fn new(line: usize, cause: impl Into<String>) -> MalformedKstat {
        MalformedKstat { line, cause: cause.into() }
    }
}

/// Reads a file and parses it. Returns `None` if it does not exist.
pub(super) fn read_with<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, MalformedKstat>,
) -> Result<Option<T>, KstatError> {
    let Some(text) = read(path)? else { return Ok(None) };
    let malformed =
        |MalformedKstat { line, cause }| KstatError::Malformed { path: path.to_owned(), line, cause };
    parse(&text).map(Some).map_err(malformed)
}

/// Reads a file with the limit [`MAX_FILE`]. Returns `None` if it does not exist. Bytes that are not UTF-8 are replaced, because
/// a dataset's name in a kstat need not be UTF-8.
fn read(path: &Path) -> Result<Option<String>, KstatError> {
    let failed = |cause| KstatError::from(cannot("read", path)(cause));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(cause) if is_gone(&cause) => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    let mut bytes = Vec::new();
    match file.take(MAX_FILE + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > MAX_FILE => Err(KstatError::TooLarge { path: path.to_owned() }),
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(cause) if is_gone(&cause) => Ok(None),
        Err(cause) => Err(failed(cause)),
    }
}

/// Whether the error says that the file does not exist. The kernel answers with `EIO` or `ENODEV` if a pool was exported, or a
/// dataset unmounted, between opening and reading its file.
pub(super) fn is_gone(cause: &io::Error) -> bool {
    use rustix::io::Errno;
    let gone = [Errno::IO, Errno::NODEV, Errno::NOTDIR, Errno::NOENT];
    cause.raw_os_error().is_some_and(|code| gone.iter().any(|errno| errno.raw_os_error() == code))
}
