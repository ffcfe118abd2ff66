//! Finds processes that may write a database's files. A copy made meanwhile would not be a consistent state.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::process;

/// A process with a file open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Its process ID.
    pub pid: i32,
    /// The name of its program.
    pub name: String,
    /// One of the files.
    pub path: PathBuf,
}

/// The first process that has a file below one of `roots` open, or mapped, for writing. Only root sees the processes of other
/// users.
pub fn find_writer(roots: &[PathBuf]) -> Option<Writer> {
    let is_below = |path: &PathBuf| roots.iter().any(|root| Path::new(path).starts_with(root));
    process::ids().unwrap_or_default().into_iter().find_map(|pid| {
        let open = process::open_for_writing(pid).find(is_below);
        let path = open.or_else(|| process::mapped_for_writing(pid).into_iter().find(is_below))?;
        Some(Writer { pid, name: process::name(pid), path })
    })
}

/// As [`find_writer`], and also a process that has a file of the same file systems open by another path: in a container, or
/// through another mount. `roots` must be mount points.
pub fn find_writer_of_mounts(roots: &[PathBuf]) -> Option<Writer> {
    let devices: Vec<u64> =
        roots.iter().filter_map(|root| Some(std::fs::metadata(root).ok()?.dev())).collect();
    find_writer(roots).or_else(|| {
        process::ids().unwrap_or_default().into_iter().find_map(|pid| {
            let mut open = process::devices_open_for_writing(pid);
            let (_, path) = open.find(|(device, _)| devices.contains(device))?;
            Some(Writer { pid, name: process::name(pid), path })
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_open_for_writing_is_found_and_one_for_reading_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let roots = [dir.path().canonicalize().unwrap()];
        let path = roots[0].join("table");
        fs::write(&path, "rows").unwrap();
        let reader = fs::File::open(&path).unwrap();
        assert_eq!(find_writer(&roots), None);
        drop(reader);
        let open = fs::File::options().append(true).open(&path).unwrap();
        let found = find_writer(&roots).unwrap();
        assert_eq!((found.pid, &found.path), (std::process::id() as i32, &path));
        // Another directory of the same file system: only its device is the same.
        let other = tempfile::tempdir().unwrap();
        assert!(find_writer_of_mounts(&[other.path().to_owned()]).is_some());
        drop(open);
        assert_eq!(find_writer(&roots), None);
    }
}
