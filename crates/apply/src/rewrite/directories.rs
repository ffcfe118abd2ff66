//! The times of directories, in a file that survives a crash. Renaming files changes them.
//!
//! For each directory: modification and access time (seconds and nanoseconds), then the path, separated by spaces, and a zero
//! byte at the end, because a path can contain everything else.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use poolwright_base::private;
use poolwright_base::{Part, cannot};

use super::scan::DirectoryEntry;
use crate::{Error, Result};

/// Writes the times to a file, replacing those that an earlier, interrupted run wrote.
///
/// # Errors
/// The host's errors.
pub fn save(path: &Path, directories: &[DirectoryEntry]) -> Result<()> {
    let mut text = Vec::new();
    for of in directories {
        let times = format!("{} {} {} {} ", of.modified.0, of.modified.1, of.accessed.0, of.accessed.1);
        text.extend_from_slice(times.as_bytes());
        text.extend_from_slice(of.path.as_os_str().as_bytes());
        text.push(0);
    }
    let write = || {
        let (part, mut file) = Part::create(path, private::FILE)?;
        file.write_all(&text)?;
        file.sync_all()?;
        part.rename(path)?;
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    };
    Ok(write().map_err(cannot("write", path))?)
}

/// Reads the times that [`save`] has written.
///
/// # Errors
/// The host's errors; [`Error::Journal`] for a malformed file.
pub fn load(path: &Path) -> Result<Vec<DirectoryEntry>> {
    let text = std::fs::read(path).map_err(cannot("read", path))?;
    let entries = text.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let malformed =
        || Error::Journal { path: path.to_owned(), why: "malformed times of directories".to_owned() };
    entries.map(|entry| parse(entry).ok_or_else(malformed)).collect()
}

fn parse(entry: &[u8]) -> Option<DirectoryEntry> {
    let mut fields = entry.splitn(5, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<i64>().ok();
    let (modified, accessed) = ((number()?, number()?), (number()?, number()?));
    let path = PathBuf::from(OsStr::from_bytes(fields.next()?));
    Some(DirectoryEntry { path, modified, accessed, changed: (0, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("times");
        let entry = |path: &[u8], at| DirectoryEntry {
            path: PathBuf::from(OsStr::from_bytes(path)),
            modified: (at, 999_999_999),
            accessed: (-at, 0),
            changed: (0, 0),
        };
        let all = [entry(b"/a b/\xff\n", 5), entry(b"/", i64::MAX)];
        save(&file, &all[..1]).unwrap();
        save(&file, &all).unwrap();
        let loaded = load(&file).unwrap();
        let same = |a: &DirectoryEntry, b: &DirectoryEntry| {
            (&a.path, a.modified, a.accessed) == (&b.path, b.modified, b.accessed)
        };
        assert!(loaded.len() == 2 && loaded.iter().zip(&all).all(|(a, b)| same(a, b)), "{loaded:?}");
        std::fs::write(&file, "1 2 x 4 /a\0").unwrap();
        assert!(matches!(load(&file), Err(Error::Journal { .. })));
    }
}
