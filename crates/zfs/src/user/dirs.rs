//! The directories of the registry, of the owners' sockets, and of the summaries of backups.
//!
//! | | a user | root |
//! | --- | --- | --- |
//! | state | `$XDG_STATE_HOME/poolwright`, else `~/.local/state/poolwright` | `/var/lib/poolwright` |
//! | sockets | `$XDG_RUNTIME_DIR/poolwright`, else `/run/user/UID/poolwright`, else `/tmp/poolwright-UID` | `/run/poolwright` |
//! | summaries of backups | `backups` in the state directory | `/var/lib/poolwright-backups` |
//!
//! Root ignores the XDG variables: a login shell sets them and a service does not, but both must find the same pools.
//! `POOLWRIGHT_STATE_DIR` and `POOLWRIGHT_RUNTIME_DIR` override all of these. The state directory is private; root's summaries are outside of
//! it, so that a monitor without privileges can read them.

use std::path::{Path, PathBuf};

use poolwright_base::private::{self, OwnDir};

use crate::user::error::io;
use crate::user::{Error, Result, name};

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The effective user ID, which decides access to sockets.
pub(crate) fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The state directory. Does not create it.
pub fn state_dir() -> PathBuf {
    if let Some(dir) = variable("POOLWRIGHT_STATE_DIR") {
        return dir;
    }
    if uid() == 0 {
        return "/var/lib/poolwright".into();
    }
    let home = || variable("HOME").unwrap_or_else(|| "/nonexistent".into()).join(".local/state");
    variable("XDG_STATE_HOME").unwrap_or_else(home).join("poolwright")
}

/// Root's directory of the summaries of backups.
const BACKUPS: &str = "/var/lib/poolwright-backups";

/// The directory into which this user's summaries of backups are written. Does not create it.
pub fn backups_dir() -> PathBuf {
    match (variable("POOLWRIGHT_STATE_DIR"), uid()) {
        (None, 0) => BACKUPS.into(),
        _ => state_dir().join("backups"),
    }
}

/// The directories with summaries of backups that this user can read: root's, and its own.
pub fn readable_backups_dirs() -> Vec<PathBuf> {
    let own = backups_dir();
    match variable("POOLWRIGHT_STATE_DIR") {
        None if own != Path::new(BACKUPS) => vec![BACKUPS.into(), own],
        _ => vec![own],
    }
}

/// The directory of the sockets. Does not create it.
pub fn runtime_dir() -> PathBuf {
    if let Some(dir) = variable("POOLWRIGHT_RUNTIME_DIR") {
        return dir;
    }
    let uid = uid();
    if uid == 0 {
        return "/run/poolwright".into();
    }
    let systemd = PathBuf::from(format!("/run/user/{uid}"));
    match variable("XDG_RUNTIME_DIR") {
        Some(dir) => dir.join("poolwright"),
        None if systemd.is_dir() => systemd.join("poolwright"),
        None => std::env::temp_dir().join(format!("poolwright-{uid}")),
    }
}

/// The socket of a pool's owner.
///
/// # Errors
/// If `pool` is not a valid pool name.
pub fn socket_path(pool: &str) -> Result<PathBuf> {
    name::check_pool(pool)?;
    Ok(runtime_dir().join(format!("{pool}.sock")))
}

/// Creates a directory that only this user can access, or makes an existing one private.
pub(crate) fn private_dir(dir: &Path) -> Result<()> {
    let Err(why) = OwnDir::open(dir) else { return Ok(()) };
    Err(match private::refusal(&why) {
        None => io("creating the directory", dir)(why),
        Some(why) => Error::Damaged {
            path: dir.to_owned(),
            why: format!(
                "{why}\nhint: set POOLWRIGHT_STATE_DIR and POOLWRIGHT_RUNTIME_DIR to directories that you own"
            ),
        },
    })
}
