//! Detects files of an open pool that were removed, replaced, truncated or moved by another program.
//!
//! A pool keeps a descriptor of each of its files, so it continues to write to a file whose name was removed. This data is lost
//! when the process ends. These checks compare the descriptor with the path.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::host;

/// A vdev consists of a multiple of this size, the size of a label.
pub(crate) const LABEL_BYTES: u64 = 256 << 10;

/// A change of a pool file by another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    /// Its last name was removed.
    Removed,
    /// Its last name was removed, and another file has that name now.
    Replaced,
    /// It is shorter than when the pool was opened.
    Truncated,
    /// It was renamed.
    Moved,
}

impl FileChange {
    /// Returns the predicate of a sentence about the file: `was removed`.
    pub fn description(self) -> &'static str {
        match self {
            FileChange::Removed => "was removed",
            FileChange::Replaced => "was replaced by another file",
            FileChange::Truncated => "was truncated",
            FileChange::Moved => "was moved",
        }
    }
}

/// A pool file that another program changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path when the pool was opened.
    pub path: PathBuf,
    /// The change.
    pub change: FileChange,
    /// A descriptor of this process from which the content can be read.
    pub descriptor: i32,
}

/// A pool file, and its size when the pool was opened.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// Its absolute path.
    pub(crate) path: PathBuf,
    /// Whether it is an auxiliary vdev: a cache vdev, or a spare that is not in use.
    pub(crate) is_auxiliary: bool,
    file: File,
    size: u64,
}

impl OpenFile {
    /// Wraps files that are open and locked, with their absolute paths.
    pub(crate) fn all(
        (paths, files): (Vec<PathBuf>, Vec<File>),
        is_auxiliary: impl IntoIterator<Item = bool>,
    ) -> Result<Vec<OpenFile>> {
        let one = |((path, file), is_auxiliary): ((PathBuf, File), bool)| {
            let size = file.metadata().map_err(|why| host("inspecting", &path, why))?.len();
            Ok(OpenFile { path, is_auxiliary, file, size })
        };
        paths.into_iter().zip(files).zip(is_auxiliary).map(one).collect()
    }

    /// Erases the labels, so that the file belongs to no pool: two at its start, and two at its end.
    pub(crate) fn erase_labels(&self) -> std::io::Result<()> {
        let two = vec![0; 2 * LABEL_BYTES as usize];
        let size = self.file.metadata()?.len() / LABEL_BYTES * LABEL_BYTES;
        if size >= 4 * LABEL_BYTES {
            self.file.write_all_at(&two, 0)?;
            self.file.write_all_at(&two, size - 2 * LABEL_BYTES)?;
        }
        self.file.sync_data()
    }

    /// Returns the change of the file, or `None` if it is unchanged.
    pub(crate) fn changed(&self) -> Option<ChangedFile> {
        let change = self.change(&self.path)?;
        Some(ChangedFile { path: self.path.clone(), change, descriptor: self.file.as_raw_fd() })
    }

    fn change(&self, path: &Path) -> Option<FileChange> {
        let open = self.file.metadata().ok()?;
        if open.len() < self.size {
            return Some(FileChange::Truncated);
        }
        let named = fs::metadata(path);
        if named.as_ref().is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())) {
            return None;
        }
        match (open.nlink(), named) {
            (0, Ok(_)) => Some(FileChange::Replaced),
            (0, Err(_)) => Some(FileChange::Removed),
            (_, Ok(_)) => Some(FileChange::Moved),
            (_, Err(why)) => (why.kind() == std::io::ErrorKind::NotFound).then_some(FileChange::Moved),
        }
    }
}
