//! The files of a database, by dataset and role.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use poolwright_base::device::Device;
use poolwright_trace::layout::{LocatedLayout, Role};

use super::mounts::{Storage, StorageTable};
use crate::facts::{DataFile, FileGroup};

/// The number of files and directories after which the search ends.
const MAX_ENTRIES: u64 = 200_000;
/// The directory of a dataset's snapshots, which the kernel mounts when they are accessed.
const SNAPSHOTS: &str = ".zfs";

/// Where a database's files are looked for.
pub struct Search<'a> {
    /// The database's directory, and those to which its links lead.
    pub roots: &'a [PathBuf],
    /// Its layout; the files of an unknown database have the role `data`.
    pub located: Option<&'a LocatedLayout>,
    /// Directories of other databases, which are left out.
    pub others: &'a [PathBuf],
    /// The mounts.
    pub mounts: &'a StorageTable,
    /// Whether the user interrupts the search.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// The files of a database.
#[derive(Debug, Default)]
pub struct DatabaseFiles {
    /// The files on datasets and volumes.
    pub groups: BTreeMap<(String, bool, Role), FileGroup>,
    /// The tables and indexes among them.
    pub paths: Vec<DataFile>,
    /// The sum of the lengths of all files.
    pub bytes: u64,
    /// The number of files and directories.
    pub entries: u64,
    /// Whether there are more than were examined.
    pub is_partial: bool,
    /// The first directory that could not be read, with the reason.
    pub unread: Option<String>,
}

impl Search<'_> {
    /// Examines the files below the directories. The files are not opened.
    pub fn run(&self) -> DatabaseFiles {
        let mut found = DatabaseFiles::default();
        let mut rest = self.roots.to_vec();
        while let Some(dir) = rest.pop() {
            match fs::read_dir(&dir) {
                Ok(entries) => self.examine(entries, &mut found, &mut rest),
                Err(why) => {
                    found.unread.get_or_insert_with(|| format!("{}: {why}", poolwright_base::quoted(&dir)));
                }
            }
            if found.is_partial || (self.is_cancelled)() {
                break;
            }
        }
        found.paths.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        found
    }

    fn examine(&self, entries: fs::ReadDir, found: &mut DatabaseFiles, rest: &mut Vec<PathBuf>) {
        for entry in entries.flatten() {
            if found.entries == MAX_ENTRIES {
                found.is_partial = true;
                return;
            }
            found.entries += 1;
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    let is_other = self.others.contains(&path) || entry.file_name() == SNAPSHOTS;
                    if !is_other && self.mounts.may_enter(&path) {
                        rest.push(path);
                    }
                }
                Ok(kind) if kind.is_file() => {
                    if let Ok(meta) = entry.metadata() {
                        self.add(found, &meta, path);
                    }
                }
                _ => {}
            }
        }
    }

    fn add(&self, found: &mut DatabaseFiles, meta: &Metadata, path: PathBuf) {
        found.bytes += meta.len();
        let role = self.located.map_or(Role::Data, |of| of.role_of(&path).unwrap_or_default());
        let Some(storage) = self.mounts.storage_of(Device::from_raw(meta.dev())) else { return };
        let group = found.group(storage, role);
        group.files += 1;
        group.bytes += meta.len();
        // A file of one block has a block of its own size.
        if storage.has_block_sizes && meta.len() > meta.blksize() {
            *group.bytes_by_block.entry(meta.blksize()).or_default() += meta.len();
        }
        if matches!(role, Role::Data | Role::Index) && meta.len() > 0 {
            let (dataset, is_of_kernel) = (storage.dataset.clone(), storage.is_of_kernel);
            found.paths.push(DataFile { dataset, is_of_kernel, bytes: meta.len(), path });
        }
    }
}

impl DatabaseFiles {
    /// The files of a role on a dataset, which may be none yet.
    pub fn group(&mut self, storage: &Storage, role: Role) -> &mut FileGroup {
        let key = (storage.dataset.clone(), storage.is_of_kernel, role);
        self.groups.entry(key).or_insert_with(|| FileGroup {
            dataset: storage.dataset.clone(),
            is_of_kernel: storage.is_of_kernel,
            is_read_only: storage.is_read_only,
            role,
            files: 0,
            bytes: 0,
            bytes_by_block: BTreeMap::new(),
        })
    }
}
