//! Checks of a mount point before the pool is opened.

use std::path::{Path, PathBuf};

use crate::server::Result;

/// The real path of a directory that may be mounted on. With `overlay`, the directory may be in use. The process that mounts
/// checks it again.
///
/// # Errors
/// [`crate::server::Error::MountPoint`] if the directory cannot be used, or must not be covered.
pub fn check_mount_point(dir: &Path, overlay: bool) -> Result<PathBuf> {
    let real = crate::check_mount_point(dir, overlay)?;
    if !overlay {
        crate::refuse_working_directory(&real, std::process::id() as i32)?;
    }
    Ok(real)
}
