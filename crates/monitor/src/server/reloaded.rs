//! Values from files that are read again when the files change, so that certificates can be renewed and tokens replaced while the server
//! runs.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::Result;

/// Identifies the content of a file: device, inode, length, and the times of its last changes in seconds and nanoseconds.
type Stamp = (u64, u64, u64, [i64; 4]);

/// A value that is made of files.
pub struct Reloaded<T> {
    files: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T> + Send + Sync>,
    /// The files when they were read last, and the value of the last time that they could be.
    state: Mutex<(Vec<Option<Stamp>>, T)>,
}

impl<T> std::fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloaded").field("files", &self.files).finish_non_exhaustive()
    }
}

impl<T: Clone> Reloaded<T> {
    /// Makes the value of these files.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn new(
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Result<Reloaded<T>> {
        // Before they are read: a change meanwhile is found the next time.
        let stamps = stamps(&files);
        let value = read()?;
        Ok(Reloaded { files, read: Box::new(read), state: Mutex::new((stamps, value)) })
    }

    /// The present value. While the files cannot be read, or do not fit, as between the changes of a certificate and its key, the last one.
    pub fn get(&self) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let present = stamps(&self.files);
        if present != state.0 {
            state.0 = present;
            if let Ok(value) = (self.read)() {
                state.1 = value;
            }
        }
        state.1.clone()
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |path: &PathBuf| {
        let meta = std::fs::metadata(path).ok()?;
        let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
        Some((meta.dev(), meta.ino(), meta.len(), times))
    };
    files.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::super::credential;
    use super::*;

    #[test]
    fn a_changed_file_is_read_again_and_a_wrong_one_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let write = |text: &str| {
            let next = dir.path().join("next");
            std::fs::write(&next, text).unwrap();
            std::fs::rename(next, &path).unwrap();
        };
        write("0123456789abcdef");
        let of = path.clone();
        let token = Reloaded::new(vec![path.clone()], move || credential::token(&of)).unwrap();
        assert_eq!(token.get(), "0123456789abcdef");
        write("fedcba9876543210");
        assert_eq!(token.get(), "fedcba9876543210");
        write("short");
        assert_eq!(token.get(), "fedcba9876543210");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(token.get(), "fedcba9876543210");
        write("0123456789abcdef");
        assert_eq!(token.get(), "0123456789abcdef");
    }
}
