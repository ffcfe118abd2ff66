//! Device numbers.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// The driver.
    pub major: u32,
    /// The device or partition of that driver.
    pub minor: u32,
}

impl Device {
    /// Splits a number as `stat(2)` returns it.
    pub fn from_raw(number: u64) -> Device {
        Device { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
    }

    /// Parses `MAJOR:MINOR`.
    pub fn parse(text: &str) -> Option<Device> {
        let (major, minor) = text.split_once(':')?;
        Some(Device { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// The device of the file system that contains `path`. This is not a block device for file systems in memory, on the
    /// network, or with several devices.
    pub fn of_file(path: &Path) -> Option<Device> {
        Some(Device::from_raw(std::fs::metadata(path).ok()?.dev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let device = Device { major: 254, minor: 300 };
        assert_eq!(Device::parse("254:300"), Some(device));
        assert_eq!(Device::from_raw(rustix::fs::makedev(254, 300)), device);
        assert_eq!(Device::parse("254"), None);
        assert!(Device::of_file(Path::new("/proc")).is_some());
    }
}
