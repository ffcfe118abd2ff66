//! A block device as the subject of a recording.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use poolwright_base::device::Device;
use poolwright_base::{cannot, volume};
use poolwright_trace::layout::Role;
use poolwright_trace::{File, path_text};

use crate::error::{Error, Result};

/// The unit of `size` in sysfs, in bytes.
const SECTOR: u64 = 512;

/// A whole block device, such as that of a ZFS volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    path: PathBuf,
    number: Device,
}

impl BlockDevice {
    /// Finds the device of a volume (`POOL/VOLUME`), or the block device at an absolute path.
    ///
    /// # Errors
    /// [`Error::Volume`] if there is no such volume; [`Error::Device`] if the path is not that of a block device;
    /// [`Error::Partition`] if it is that of a partition.
    pub fn find(name: &Path) -> Result<BlockDevice> {
        if name.is_absolute() {
            let number = number_of(name).map_err(|source| Error::Device { path: name.to_owned(), source })?;
            return BlockDevice { path: lasting(name), number }.checked();
        }
        let path = volume::device_of(&name.to_string_lossy());
        let number = number_of(&path).map_err(|source| Error::Volume { name: name.to_owned(), source })?;
        BlockDevice { path, number }.checked()
    }

    /// Refuses a partition.
    fn checked(self) -> Result<BlockDevice> {
        let shown = self.in_sysfs();
        if !shown.join("partition").exists() {
            return Ok(self);
        }
        let real = fs::canonicalize(&shown).map_err(cannot("read", shown))?;
        // sysfs has `!` for a slash in a device's name.
        let disk = real.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        Err(Error::Partition { path: self.path, disk: Path::new("/dev").join(disk.replace('!', "/")) })
    }

    /// The path: `/dev/zvol/POOL/VOLUME` for a volume, if the caller named it so.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the device now, in bytes.
    ///
    /// # Errors
    /// [`Error::Read`] if sysfs does not show the device, because it was removed.
    pub fn bytes(&self) -> Result<u64> {
        let path = self.in_sysfs().join("size");
        let text = fs::read_to_string(&path).map_err(cannot("read", &path))?;
        let sectors: u64 = text
            .trim()
            .parse()
            .map_err(|why| cannot("read", path)(io::Error::new(io::ErrorKind::InvalidData, why)))?;
        Ok(sectors * SECTOR)
    }

    /// The kernel's device number (`dev_t`), with the major number in the upper 12 bits.
    pub(crate) fn kernel_number(&self) -> u32 {
        self.number.major << 20 | self.number.minor
    }

    /// The device in a trace's table of files.
    pub(crate) fn file(&self) -> Result<File> {
        Ok(File {
            path: path_text::encode(&self.path),
            size: self.bytes()?,
            role: Some(Role::Volume),
            device: format!("{}:{}", self.number.major, self.number.minor),
            ino: 0,
        })
    }

    fn in_sysfs(&self) -> PathBuf {
        Path::new("/sys/dev/block").join(format!("{}:{}", self.number.major, self.number.minor))
    }
}

/// Returns a path of a device that leads to the same one after the next boot, as far as it is known: that of a volume is its link.
fn lasting(path: &Path) -> PathBuf {
    let is_link_of_volume =
        path.starts_with(volume::LINKS) && !path.components().any(|part| part == Component::ParentDir);
    if is_link_of_volume {
        path.to_owned()
    } else {
        fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
    }
}

/// Returns the device number of the block device at `path`.
fn number_of(path: &Path) -> io::Result<Device> {
    let found = fs::metadata(path)?;
    if !found.file_type().is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a block device"));
    }
    Ok(Device::from_raw(found.rdev()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str) -> String {
        BlockDevice::find(Path::new(name)).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_a_block_device_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        for name in [path.as_str(), "/dev/null"] {
            let expected =
                format!("cannot record {name}: not a block device\nhint: name a volume (POOL/VOLUME) ");
            assert!(refusal(name).starts_with(&expected), "{}", refusal(name));
        }
        assert!(refusal("/dev/none/at all").starts_with("cannot record \"/dev/none/at all\": No such file"));
        let refused = refusal("no-pool/no volume");
        assert!(
            refused.starts_with("cannot record the volume \"no-pool/no volume\": No such file"),
            "{refused}"
        );
        assert!(refused.ends_with("\nhint: list the volumes with `zfs list -t volume`"), "{refused}");
    }

    #[test]
    fn volumes_keep_the_path_of_their_link() {
        assert_eq!(lasting(Path::new("/dev/zvol/tank/vm")), Path::new("/dev/zvol/tank/vm"));
        assert_eq!(lasting(Path::new("/dev/../dev/null")), Path::new("/dev/null"));
    }
}
