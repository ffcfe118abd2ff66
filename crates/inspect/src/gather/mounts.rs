//! Which dataset or volume a file is on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use poolwright_base::device::Device;
use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_zfs::datasets::{has_exact_block_sizes, is_dataset, is_kernel, pool_of};
use poolwright_zfs::kernel::command::dataset::DatasetSpace;

use crate::Result;

/// What a mount is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The dataset or volume.
    pub dataset: String,
    /// Whether the kernel has it.
    pub is_of_kernel: bool,
    /// Whether `stat` shows the block sizes of its files.
    pub has_block_sizes: bool,
    /// Whether it is mounted read-only.
    pub is_read_only: bool,
}

/// The file systems on local disks and in memory. A directory on any other one, which is not a dataset, can wait for a server for ever.
const LOCAL: [&str; 10] =
    ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs"];

/// The mounts of this machine.
#[derive(Debug)]
pub struct StorageTable {
    mounts: Vec<MountEntry>,
    storage: BTreeMap<Device, Storage>,
    /// The mount points of suspended pools, whose files cannot be read: a process that tries waits.
    suspended: Vec<PathBuf>,
}

impl StorageTable {
    /// Reads the table. `spaces` has the names of the volumes, `suspended` those of the suspended pools.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub fn read(spaces: &[DatasetSpace], suspended: &[String]) -> Result<StorageTable> {
        let mounts = mountinfo::read()?;
        let volumes: BTreeMap<String, String> =
            spaces.iter().filter_map(|of| device_name(&of.name)).collect();
        let storage: BTreeMap<Device, Storage> =
            mounts.iter().filter_map(|mount| Some((mount.device, storage(mount, &volumes)?))).collect();
        let is_suspended = |mount: &&MountEntry| {
            let of = storage.get(&mount.device).filter(|of| of.is_of_kernel);
            of.is_some_and(|of| suspended.iter().any(|pool| pool_of(&of.dataset) == pool))
        };
        let suspended = mounts.iter().filter(is_suspended).map(|mount| mount.point.clone()).collect();
        Ok(StorageTable { mounts, storage, suspended })
    }

    /// Whether a directory can be read without waiting for a server or for a suspended pool. The path is not resolved.
    pub fn may_enter(&self, dir: &Path) -> bool {
        let Some(mount) = mountinfo::containing(&self.mounts, dir) else { return true };
        let is_local =
            self.storage.contains_key(&mount.device) || LOCAL.contains(&mount.file_system.as_str());
        // The file system of `/` in a container or an initial RAM disk can be of any type.
        (is_local || mount.point == Path::new("/")) && !self.suspended.contains(&mount.point)
    }

    /// Whether another mount namespace has the same file system at a path.
    pub fn agrees_with(&self, theirs: &[MountEntry], path: &Path) -> bool {
        let device = |mounts| mountinfo::containing(mounts, path).map(|mount| mount.device);
        device(theirs) == device(&self.mounts)
    }

    /// What a path is on, by the table of mounts alone.
    pub fn storage_at(&self, path: &Path) -> Option<&Storage> {
        self.storage.get(&mountinfo::containing(&self.mounts, path)?.device)
    }

    /// What the file system with this device number is on; `None` if it is neither a dataset nor on a volume.
    pub fn storage_of(&self, device: Device) -> Option<&Storage> {
        self.storage.get(&device)
    }

    /// The type of the file system that contains a directory.
    pub fn file_system(&self, dir: &Path) -> String {
        mountinfo::containing(&self.mounts, dir)
            .map_or(mountinfo::UNKNOWN_FILE_SYSTEM.to_owned(), |of| of.file_system.clone())
    }

    /// The directories on which datasets and file systems on volumes are mounted, with what they are on; not `/`, below which everything is.
    pub fn points(&self) -> impl Iterator<Item = (&Path, &Storage)> {
        let real =
            self.mounts.iter().filter(|mount| mount.point != Path::new("/") && mount.root == Path::new("/"));
        real.filter_map(|mount| Some((mount.point.as_path(), self.storage.get(&mount.device)?)))
    }

    /// Whether a dataset of this name, or one below it, is mounted.
    pub fn has(&self, name: &str) -> bool {
        self.storage.values().any(|of| is_at_or_below(&of.dataset, name))
    }
}

/// Whether a dataset is another one or below it.
pub fn is_at_or_below(dataset: &str, top: &str) -> bool {
    dataset.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn storage(mount: &MountEntry, volumes: &BTreeMap<String, String>) -> Option<Storage> {
    let source = mount.source.to_string_lossy();
    if is_dataset(mount) && !source.contains('@') {
        let has_block_sizes = has_exact_block_sizes(mount);
        return Some(Storage {
            dataset: source.into_owned(),
            is_of_kernel: is_kernel(mount),
            has_block_sizes,
            is_read_only: mount.is_read_only(),
        });
    }
    let Device { major, minor } = mount.device;
    let device = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // The directory of a partition is in that of its disk.
    let dataset = device.components().find_map(|part| volumes.get(part.as_os_str().to_str()?))?;
    Some(Storage {
        dataset: dataset.clone(),
        is_of_kernel: true,
        has_block_sizes: false,
        is_read_only: mount.is_read_only(),
    })
}

/// The name of a volume's device (`zd16`) and the volume; `None` for a file system.
fn device_name(volume: &str) -> Option<(String, String)> {
    let device =
        poolwright_base::volume::device_of(volume).canonicalize().ok().filter(|path| !path.is_dir())?;
    Some((device.file_name()?.to_str()?.to_owned(), volume.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_can_wait_for_ever_are_not_entered() {
        let mounts = mountinfo::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / /tank rw - zfs tank rw\n\
              3 2 0:41 / /tank/net rw - nfs4 server:/ rw\n4 1 0:42 / /bad rw - zfs bad rw\n5 1 0:43 / /proc rw - proc proc rw\n",
        );
        let volumes = BTreeMap::new();
        let storage =
            mounts.iter().filter_map(|mount| Some((mount.device, storage(mount, &volumes)?))).collect();
        let table = StorageTable { mounts, storage, suspended: vec![PathBuf::from("/bad")] };
        let entered = |dir: &str| table.may_enter(Path::new(dir));
        assert!(entered("/srv") && entered("/tank/pg"));
        assert!(!entered("/tank/net") && !entered("/bad/pg") && !entered("/proc/self"));
        assert_eq!(table.storage_at(Path::new("/tank/pg")).map(|of| of.dataset.as_str()), Some("tank"));
        assert!(table.agrees_with(&table.mounts, Path::new("/tank/pg")));
        assert!(!table.agrees_with(&table.mounts[..1], Path::new("/tank/pg")));
    }

    #[test]
    fn datasets_and_other_file_systems() {
        let table = mountinfo::parse(
            b"1 0 0:40 / /db rw - zfs tank/db rw\n2 0 0:41 / /u rw - fuse.poolwright test/u rw\n\
              3 0 8:1 / /home rw - ext4 /dev/sda1 rw\n4 1 0:42 / /db/.zfs/snapshot/s rw - zfs tank/db@s rw\n",
        );
        let of = |at: usize| storage(&table[at], &BTreeMap::new()).map(|of| (of.dataset, of.is_of_kernel));
        assert_eq!((of(0), of(1)), (Some(("tank/db".to_owned(), true)), Some(("test/u".to_owned(), false))));
        assert_eq!((of(2), of(3)), (None, None));
        assert!(is_at_or_below("tank/db", "tank") && is_at_or_below("tank", "tank"));
        assert!(!is_at_or_below("tank2", "tank") && !is_at_or_below("tank", "tank/db"));
    }
}
