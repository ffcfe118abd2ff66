//! Captures the standard error of a process, and returns its last lines.
//!
//! It goes to a file, not a pipe: a process that writes into a pipe without a reader would be killed while it cleans up.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Stdio;

use poolwright_base::{cannot, end_of, memory_file, private};

use crate::Result;

/// Number of bytes at the end that a message may need.
const MOST: u64 = 8 << 10;

/// A log whose end can be read.
#[derive(Debug)]
pub struct LogTail(File);

impl LogTail {
    /// Creates a log in a file, for processes with much output.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn in_file(path: &Path) -> Result<LogTail> {
        let file = File::options().create(true).append(true).read(true).mode(private::FILE).open(path);
        Ok(LogTail(file.map_err(cannot("open", path))?))
    }

    /// Creates a log in memory, for processes with little output that may have to report a full disk.
    ///
    /// # Errors
    /// Fails if the memory file cannot be created.
    pub fn in_memory() -> Result<LogTail> {
        let file = memory_file().map_err(cannot("create", Path::new("a file in memory")))?;
        Ok(LogTail(file))
    }

    /// Returns a handle for the process that writes.
    ///
    /// # Errors
    /// Fails if the descriptor cannot be duplicated.
    pub fn stdio(&self) -> Result<Stdio> {
        let same = self.0.try_clone().map_err(cannot("open", Path::new("a log")))?;
        Ok(Stdio::from(same))
    }

    /// Returns the end of the log as text.
    pub fn text(&self) -> String {
        end_of(&self.0, MOST)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_end_of_what_two_processes_said() {
        let dir = tempfile::tempdir().unwrap();
        for tail in [LogTail::in_memory().unwrap(), LogTail::in_file(&dir.path().join("log")).unwrap()] {
            assert_eq!(tail.text(), "");
            for script in ["seq 1 5000 >&2", "echo the last >&2"] {
                let status = Command::new("sh").args(["-c", script]).stderr(tail.stdio().unwrap()).status();
                assert!(status.unwrap().success());
            }
            let words = tail.text();
            assert_eq!(words.len() as u64, MOST);
            assert!(words.ends_with("\n5000\nthe last\n"), "{words}");
        }
    }
}
