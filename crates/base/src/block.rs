//! Block devices: their counters and sector sizes.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::device::Device;
use crate::mountinfo;

/// Activity of a block device since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Milliseconds in which the device had at least one request.
    pub busy_ms: u64,
    /// The sum of the durations of all requests, in milliseconds.
    pub queued_ms: u64,
    /// Completed reads and writes.
    pub requests: u64,
}

impl DiskStats {
    /// Reads the device's row of `/proc/diskstats`. Returns `None` if the table has none.
    pub fn read(device: Device) -> Option<DiskStats> {
        DiskStats::parse(&std::fs::read_to_string("/proc/diskstats").ok()?, device)
    }

    /// Parses the content of `/proc/diskstats` (`proc_diskstats(5)`; `Documentation/admin-guide/iostats.rst` in the kernel's
    /// sources describes the fields).
    pub fn parse(table: &str, device: Device) -> Option<DiskStats> {
        table.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
            let is_device = (number(0)?, number(1)?) == (device.major.into(), device.minor.into());
            is_device.then_some(())?;
            Some(DiskStats {
                busy_ms: number(12)?,
                queued_ms: number(13)?,
                requests: number(3)? + number(7)?,
            })
        })
    }
}

/// The block device below `path`, as [`DiskStats`] counts it. If the file system has its own number, as btrfs does, the
/// device is the one that is mounted. Returns `None` for file systems without a block device.
pub fn device_below(path: &Path) -> Option<Device> {
    let device = Device::of_file(path)?;
    if DiskStats::read(device).is_some() {
        return Some(device);
    }
    let mounts = mountinfo::read().ok()?;
    let source = PathBuf::from(&mounts.iter().find(|mount| mount.device == device)?.source);
    if !source.starts_with("/dev") {
        return None;
    }
    let device = Device::from_raw(std::fs::metadata(source).ok()?.rdev());
    DiskStats::read(device).map(|_| device)
}

/// The physical sector size in bytes of the block device below `dir`. Returns `None` if its file system is not on a single block
/// device.
pub fn physical_sector(dir: &Path) -> Option<u64> {
    sector_of(Device::of_file(dir)?)
}

/// The physical sector size in bytes of a block device or partition, by the path of its device file. Returns `None` if it is none.
pub fn physical_sector_of(device: &Path) -> Option<u64> {
    let meta = std::fs::metadata(device).ok()?;
    meta.file_type().is_block_device().then(|| sector_of(Device::from_raw(meta.rdev())))?
}

fn sector_of(Device { major, minor }: Device) -> Option<u64> {
    let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let read = |file: &str| std::fs::read_to_string(device.join(file)).ok()?.trim().parse().ok();
    // A partition has no queue; its parent directory is that of the disk.
    read("queue/physical_block_size").or_else(|| read("../queue/physical_block_size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_by_its_number() {
        let text = " 254       0 vda 11 2 33 4 55 6 77 8 9 1000 2000 0 0 0 0 0 0\n\
                    \x20  7       1 loop1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let disk = |major, minor| DiskStats::parse(text, Device { major, minor });
        assert_eq!(disk(254, 0), Some(DiskStats { busy_ms: 1000, queued_ms: 2000, requests: 66 }));
        assert_eq!(disk(7, 1), Some(DiskStats::default()));
        assert_eq!(disk(0, 23), None);
        let captured = include_str!("../fixtures/diskstats");
        let vda = DiskStats::parse(captured, Device { major: 254, minor: 0 }).unwrap();
        assert!(vda.queued_ms >= vda.busy_ms && vda.busy_ms > 0);
    }

    #[test]
    fn a_file_system_without_a_block_device() {
        assert_eq!(device_below(Path::new("/proc")), None);
        assert_eq!(physical_sector(Path::new("/proc")), None);
        assert_eq!(physical_sector_of(Path::new("/dev/null")), None);
        // Some machine may have no disk at all.
        let disks = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
        for disk in disks.map(|disk| Path::new("/dev").join(disk.file_name())).filter(|path| path.exists()) {
            assert!(physical_sector_of(&disk).is_some_and(|bytes| bytes >= 512), "{disk:?}");
        }
    }
}
