//! Changes of a pool's vdevs by its name. The process that has the pool open makes them, and updates the registry.

use std::path::{Path, PathBuf};

use poolwright_openzfs::VdevGroup;

use crate::user::error::io;
use crate::user::{ConnectOptions, Error, NewVdevFile, PoolConnection, Request, Result, VdevChange};

/// Adds vdevs.
///
/// # Errors
/// [`Error::NamedTwice`], [`Error::NotAFile`] or [`Error::NoDirectory`] for an unusable file; as [`PoolConnection::once`], with
/// the faults of [`Request::Add`].
pub fn add(pool: &str, mut groups: Vec<VdevGroup>, options: impl Into<ConnectOptions>) -> Result<VdevChange> {
    let mut seen: Vec<PathBuf> = Vec::new();
    for (path, _) in groups.iter_mut().flat_map(|group| &mut group.files) {
        *path = new_file(path)?;
        if seen.contains(path) {
            return Err(Error::NamedTwice(path.clone()));
        }
        seen.push(path.clone());
    }
    PoolConnection::once(pool, options, &Request::Add { groups })
}

/// Adds a new file to the mirror of a device, which is a file of the pool or a GUID. With `wait`, or if no process has the pool
/// open, waits for the end of the resilver.
///
/// # Errors
/// As [`add`], with the faults of [`Request::Attach`].
pub fn attach(
    pool: &str,
    device: &Path,
    new: NewVdevFile,
    wait: bool,
    options: impl Into<ConnectOptions>,
) -> Result<VdevChange> {
    let new = NewVdevFile { file: new_file(&new.file)?, ..new };
    PoolConnection::once(pool, options, &Request::Attach { device: absolute(device)?, new, wait })
}

/// Removes a device from its mirror, or ends the use of a spare.
///
/// # Errors
/// As [`PoolConnection::once`], with the faults of [`Request::Detach`].
pub fn detach(pool: &str, device: &Path, options: impl Into<ConnectOptions>) -> Result<VdevChange> {
    PoolConnection::once(pool, options, &Request::Detach { device: absolute(device)? })
}

/// Removes an available spare, a cache vdev, or a log with all files of its mirror.
///
/// # Errors
/// As [`PoolConnection::once`], with the faults of [`Request::Remove`].
pub fn remove(pool: &str, device: &Path, options: impl Into<ConnectOptions>) -> Result<VdevChange> {
    PoolConnection::once(pool, options, &Request::Remove { device: absolute(device)? })
}

/// Replaces a device by a new file, or by a spare of the pool; without `new`, by a file in its place. Waits as [`attach`].
///
/// # Errors
/// As [`add`], with the faults of [`Request::Replace`].
pub fn replace(
    pool: &str,
    device: &Path,
    new: Option<NewVdevFile>,
    wait: bool,
    options: impl Into<ConnectOptions>,
) -> Result<VdevChange> {
    let new = match new {
        Some(new) => Some(NewVdevFile { file: new_file(&new.file)?, ..new }),
        None => None,
    };
    PoolConnection::once(pool, options, &Request::Replace { device: absolute(device)?, new, wait })
}

/// A device as the pool's process understands it: a GUID, or the absolute path of a file.
fn absolute(device: &Path) -> Result<PathBuf> {
    let is_guid = device.to_str().is_some_and(|text| text.parse::<u64>().is_ok());
    if is_guid && !device.exists() {
        return Ok(device.to_owned());
    }
    std::path::absolute(device).map_err(io("resolving", device))
}

/// The absolute path of a file that exists or can be created. The engine refuses a file that is not empty, unless it is a spare.
pub(crate) fn new_file(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).map_err(io("resolving", path))?;
    match std::fs::metadata(&path) {
        Ok(meta) if !meta.is_file() => Err(Error::NotAFile(path)),
        Ok(_) => Ok(path),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => match path.parent() {
            Some(dir) if dir.is_dir() => Ok(path),
            _ => Err(Error::NoDirectory(path)),
        },
        Err(why) => Err(io("stat of", &path)(why)),
    }
}
