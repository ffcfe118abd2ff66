//! Adding a mount to the process that owns the pool.

use std::path::Path;

use poolwright_base::quoted;
use poolwright_zfs::user::connection::ask_owner;
use poolwright_zfs::user::{Fault, Mounted, OnWait, PoolInfo, Request, name};

use crate::server::{Error, Result};

/// Has the pool's owner mount a dataset. Returns the mount and the owner's process ID, or `None` if the pool has no owner. With
/// `emulates_devices`, fails if the pool has an owner: the devices of an open pool cannot change.
///
/// # Errors
/// [`Error::Adding`] if the owner cannot be reached, refuses or fails, or if it exists and `emulates_devices`; as
/// [`check_visible`].
pub fn to_owner(wanted: &Mounted, emulates_devices: bool, on_wait: OnWait) -> Result<Option<(Mounted, u32)>> {
    let mut pid = 0;
    let mounted = ask_owner(name::pool_of(&wanted.dataset), on_wait, |owner| {
        pid = owner.pid();
        if emulates_devices {
            // Tells an owner that is ending, for which `ask_owner` waits, from one that keeps the pool.
            owner.ask::<PoolInfo>(&Request::Status)?;
            return Err(Fault::invalid("only the first mount of a pool can emulate a device\nhint: unmount the pool's other datasets first, or mount without a device").into());
        }
        owner.ask::<Mounted>(&Request::Mount(wanted.clone()))
    });
    match mounted.map_err(|why| Error::Adding { pid, why })? {
        None => Ok(None),
        Some(mounted) => {
            check_visible(&mounted.dir, pid as u32)?;
            Ok(Some((mounted, pid as u32)))
        }
    }
}

/// Checks that this process can use a mount that another process made.
///
/// # Errors
/// [`Error::Unusable`] if the mount is not accessible to this process.
pub fn check_visible(dir: &Path, pid: u32) -> Result<()> {
    crate::check_answer(dir).map_err(|why| {
        Error::Unusable(format!(
            "process {pid} has mounted it, but {} is not accessible: it has been unmounted since, or that \
             process is in another mount namespace: {why}",
            quoted(dir)
        ))
    })
}
