//! The devices of ZFS volumes, by the links that udev makes (`zvol_id`): `/dev/zvol/POOL/VOLUME`.

use std::fs;
use std::path::{Path, PathBuf};

/// The directory of the links.
pub const LINKS: &str = "/dev/zvol";

/// The path of a volume's device. udev writes a space in a name as `+`.
pub fn device_of(volume: &str) -> PathBuf {
    Path::new(LINKS).join(volume.replace(' ', "+"))
}

/// The volume with this device, which may be named by its link or as `/dev/zdN`. `None` if it is not a volume, or has no link.
pub fn volume_at(device: &Path) -> Option<String> {
    let name = |link: &Path| Some(link.strip_prefix(LINKS).ok()?.to_str()?.replace('+', " "));
    if device.starts_with(LINKS) {
        return name(device);
    }
    let real = device.canonicalize().ok()?;
    let mut directories = vec![PathBuf::from(LINKS)];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                directories.push(entry.path());
            } else if entry.path().canonicalize().is_ok_and(|path| path == real) {
                return name(&entry.path());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_named_after_volumes() {
        assert_eq!(device_of("tank/vm 1"), Path::new("/dev/zvol/tank/vm+1"));
        assert_eq!(volume_at(&device_of("tank/vm 1")).as_deref(), Some("tank/vm 1"));
        assert_eq!(volume_at(Path::new("/dev/null")), None);
    }
}
