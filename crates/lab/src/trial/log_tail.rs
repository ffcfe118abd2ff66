//! What a process says on its standard error, and its last words.
//!
//! Never a pipe: whoever writes into one whose reader has died is hit when it should clear up.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Stdio;

use poolwright_host::private;
use rustix::fs::MemfdFlags;

use crate::{Error, Result};

/// As much of the end as a message may need.
const MOST: u64 = 8 << 10;

/// A log, of which the end can be read.
#[derive(Debug)]
pub struct LogTail(File);

impl LogTail {
    /// In a file, which grows: of who may say much.
    pub fn in_file(path: &Path) -> Result<LogTail> {
        let file = File::options().create(true).append(true).read(true).mode(private::FILE).open(path);
        Ok(LogTail(file.map_err(Error::host("opening", path))?))
    }

    /// In memory: of who says little, and may have to say that the disk is full.
    pub fn in_memory() -> Result<LogTail> {
        let file = rustix::fs::memfd_create("log", MemfdFlags::CLOEXEC);
        Ok(LogTail(File::from(
            file.map_err(|why| Error::host("making", Path::new("a file in memory"))(why.into()))?,
        )))
    }

    /// For the process that writes.
    pub fn stdio(&self) -> Result<Stdio> {
        let same = self.0.try_clone().map_err(Error::host("opening", Path::new("a log")))?;
        Ok(Stdio::from(same))
    }

    /// Its end, as text.
    pub fn text(&self) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let len = self.0.metadata()?.len();
            let mut text = vec![0; len.min(MOST) as usize];
            self.0.read_exact_at(&mut text, len.saturating_sub(MOST))?;
            Ok(text)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
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
