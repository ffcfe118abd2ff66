//! The block sizes and the space of files, or of a sample of them.
//!
//! `stat` reports the block size of a regular file on ZFS as `st_blksize` (`zfs_getattr_fast` in OpenZFS), which is the recordsize at
//! the time when the file grew beyond one block. The files are not opened.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Unit of `st_blocks` in bytes (`stat(2)`).
const SECTOR: u64 = 512;

/// Common facts of several files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSample {
    /// Number of examined files.
    pub files: u64,
    /// Number of files that are larger than the recordsize.
    pub large: u64,
    /// Number of these whose block size is not the recordsize.
    pub other_block_size: u64,
    /// Sum of the lengths in bytes.
    pub bytes: u64,
    /// Sum of the allocated space in bytes.
    pub allocated: u64,
}

impl FileSample {
    /// Examines at most `limit` regular files below these paths, without following symbolic links and without entering other file
    /// systems. `None` if this process may examine no file.
    pub fn of(paths: &[String], recordsize: Option<u64>, limit: u64) -> Option<FileSample> {
        let mut sample = FileSample::default();
        for path in paths {
            sample.add(Path::new(path), recordsize, limit);
        }
        (sample.files > 0).then_some(sample)
    }

    /// Bytes of the files per allocated byte. `None` if nothing is allocated.
    pub fn space_ratio(&self) -> Option<f64> {
        (self.allocated > 0).then(|| self.bytes as f64 / self.allocated as f64)
    }

    fn add(&mut self, path: &Path, recordsize: Option<u64>, limit: u64) {
        let Ok(top) = fs::symlink_metadata(path) else { return };
        let device = top.dev();
        let mut rest: Vec<(PathBuf, Metadata)> = vec![(path.to_owned(), top)];
        while let Some((path, meta)) = rest.pop() {
            if meta.is_file() {
                if self.files == limit {
                    return;
                }
                self.add_file(&meta, recordsize);
            } else if meta.is_dir() && meta.dev() == device {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                rest.extend(entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))));
            }
        }
    }

    fn add_file(&mut self, meta: &Metadata, recordsize: Option<u64>) {
        self.files += 1;
        self.bytes += meta.len();
        self.allocated += meta.blocks() * SECTOR;
        if let Some(recordsize) = recordsize.filter(|recordsize| meta.len() > *recordsize) {
            self.large += 1;
            self.other_block_size += u64::from(meta.blksize() != recordsize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_by_length_and_block_size() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("small"), [1; 10]).unwrap();
        fs::write(dir.path().join("sub/large"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let paths = [dir.path().to_str().unwrap().to_owned()];
        let block = fs::metadata(dir.path().join("sub/large")).unwrap().blksize();
        let same = FileSample::of(&paths, Some(block), 9).unwrap();
        assert_eq!((same.files, same.large, same.other_block_size, same.bytes), (2, 1, 0, 100_010));
        assert!(same.space_ratio().unwrap() > 0.5);
        assert_eq!(FileSample::of(&paths, Some(block / 2), 9).unwrap().other_block_size, 1);
        assert_eq!(FileSample::of(&paths, None, 9).unwrap().large, 0);
        assert_eq!(FileSample::of(&paths, None, 1).unwrap().files, 1);
        assert_eq!(FileSample::of(&["/missing".to_owned()], None, 9), None);
    }
}
