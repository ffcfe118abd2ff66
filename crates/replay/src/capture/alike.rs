//! Data for removed files: tables that a log-structured store has merged resemble the resulting tables.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use poolwright_base::regular;

/// The number of files, nearest in size to a removed file, that replace it in turn.
const NEAREST: usize = 4;

/// Finds files by directory and extension.
#[derive(Default)]
pub(super) struct Alike {
    found: HashMap<(PathBuf, OsString), Vec<(PathBuf, u64)>>,
}

/// An open file whose data replaces that of a removed file.
pub(super) struct StandIn {
    file: File,
    size: u64,
}

impl Alike {
    /// Opens a file in the directory of `missing` with the same extension and about `size` bytes. `turn` selects one of
    /// several. Returns `None` if there is no such file.
    pub fn stand_in(&mut self, missing: &Path, size: u64, turn: usize) -> Option<StandIn> {
        let key = (missing.parent()?.to_owned(), missing.extension()?.to_owned());
        let files = self.found.entry(key).or_insert_with_key(|(dir, extension)| files_in(dir, extension));
        let mut nearest: Vec<&(PathBuf, u64)> = files.iter().filter(|(path, _)| path != missing).collect();
        nearest.sort_by_key(|(_, other)| other.abs_diff(size));
        nearest.truncate(NEAREST);
        let (path, _) = nearest.get(turn.checked_rem(nearest.len())?)?;
        let file = regular::open(path).ok()?;
        let size = file.metadata().ok()?.len();
        (size > 0).then_some(StandIn { file, size })
    }
}

fn files_in(dir: &Path, extension: &OsString) -> Vec<(PathBuf, u64)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let of_kind = entries.flatten().filter(|e| e.path().extension() == Some(extension));
    let sized = of_kind.filter_map(|e| {
        let meta = e.metadata().ok()?;
        (meta.is_file() && meta.len() > 0).then(|| (e.path(), meta.len()))
    });
    let mut all: Vec<(PathBuf, u64)> = sized.collect();
    all.sort();
    all
}

impl StandIn {
    /// Fills `into` with the data at `offset`, wrapping around at the end of the file. Returns false if the file cannot
    /// be read.
    pub fn read(&self, into: &mut [u8], offset: u64) -> bool {
        let mut done = 0;
        while done < into.len() {
            let at = (offset + done as u64) % self.size;
            match self.file.read_at(&mut into[done..], at) {
                Ok(0) | Err(_) => return false,
                Ok(n) => done += n,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_same_kind_and_size_stands_in() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, byte: u8, size: usize| {
            std::fs::write(dir.path().join(name), vec![byte; size]).unwrap();
        };
        write("1.sst", 1, 1000);
        write("2.sst", 2, 9000);
        write("3.log", 3, 1000);
        write("4.sst", 4, 0);
        let mut alike = Alike::default();
        let mut byte = |missing: &str, size, turn| {
            let mut into = [0; 64];
            let stand_in = alike.stand_in(&dir.path().join(missing), size, turn)?;
            assert!(stand_in.read(&mut into, 990), "reads wrap around at the end");
            Some(into[0])
        };
        assert_eq!(byte("9.sst", 1100, 0), Some(1));
        assert_eq!(byte("9.sst", 8000, 0), Some(2));
        assert_eq!(byte("9.sst", 8000, 1), Some(1), "the next nearest");
        assert_eq!(byte("9.log", 8000, 0), Some(3));
        assert_eq!(byte("3.log", 8000, 0), None, "not the file itself");
        assert_eq!(byte("9", 8000, 0), None);
    }
}
