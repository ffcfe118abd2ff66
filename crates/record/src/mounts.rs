//! The paths of files as the mounts of this process show them.

use std::path::{Path, PathBuf};

use poolwright_base::mountinfo::MountEntry;

/// The kernel's device number (`dev_t`), with the major number in the upper 12 bits (`include/linux/kdev_t.h`).
fn kernel_device(mount: &MountEntry) -> u32 {
    mount.device.major << 20 | mount.device.minor
}

/// The path at which `inner`, a path within the file system `dev`, is visible. If several mounts show it, uses the one that
/// shows the smallest part of the file system.
pub(crate) fn outside(mounts: &[MountEntry], dev: u32, inner: &Path) -> Option<PathBuf> {
    let shows = |mount: &&MountEntry| kernel_device(mount) == dev && inner.starts_with(&mount.root);
    let mount = mounts.iter().filter(shows).max_by_key(|m| m.root.components().count())?;
    let rest = inner.strip_prefix(&mount.root).ok()?;
    Some(if rest.as_os_str().is_empty() { mount.point.clone() } else { mount.point.join(rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Vec<MountEntry> {
        poolwright_base::mountinfo::parse(
            b"22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
              40 22 0:35 / /dev/shm rw - tmpfs tmpfs rw\n\
              41 22 254:16 /var /srv/my\\040data rw - xfs /dev/vdb rw\n\
              42 22 254:16 / /srv/all rw shared:5 - xfs /dev/vdb rw",
        )
    }

    #[test]
    fn a_path_is_shown_by_the_closest_mount() {
        let mounts = table();
        let dev = 254 << 20 | 16;
        assert_eq!(outside(&mounts, dev, Path::new("/var/a")).unwrap(), Path::new("/srv/my data/a"));
        assert_eq!(outside(&mounts, dev, Path::new("/etc/a")).unwrap(), Path::new("/srv/all/etc/a"));
        assert_eq!(outside(&mounts, dev, Path::new("/var")).unwrap(), Path::new("/srv/my data"));
        assert_eq!(outside(&mounts, 7, Path::new("/var")), None);
    }
}
