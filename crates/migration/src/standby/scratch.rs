//! The directory with a standby's socket and its files for authentication.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use poolwright_backup::client::command_as;
use poolwright_host::{Scratch, private};

use crate::error::refused;
use crate::{Error, Result};

/// Starts the names of the scratch directories.
const SCRATCH_PREFIX: &str = "poolwright-standby-";
/// The directory of the socket in the scratch directory.
pub(super) const SOCKET: &str = "socket";
/// The longest path of a socket's directory, in bytes (`unix(7)`).
const LONGEST_SOCKET_DIR: usize = 107 - "/.s.PGSQL.5432".len();

/// A directory that the owner of the database can enter, with a directory for the socket and the standby's files for authentication. It is
/// short enough for the path of a socket.
pub(super) fn create(owner: (u32, u32)) -> Result<Scratch> {
    for parent in [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/run")] {
        let Ok(scratch) = Scratch::create(&parent, SCRATCH_PREFIX) else { continue };
        let path = scratch.path();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
                .map_err(Error::host("set the mode of", path))
        };
        mode(path, 0o711)?;
        let socket_dir = path.join(SOCKET);
        private::make_dir(&socket_dir).map_err(Error::host("create", &socket_dir))?;
        chown(&socket_dir, Some(owner.0), Some(owner.1))
            .map_err(Error::host("set the owner of", &socket_dir))?;
        for (name, text) in [("pg_hba.conf", "local all all trust\n"), ("pg_ident.conf", "")] {
            let path = path.join(name);
            fs::write(&path, text).map_err(Error::host("write", &path))?;
            mode(&path, 0o644)?;
        }
        let mut test = command_as(owner, Path::new("test"));
        test.arg("-w").arg(&socket_dir);
        if socket_dir.as_os_str().len() <= LONGEST_SOCKET_DIR
            && test.status().is_ok_and(|status| status.success())
        {
            return Ok(scratch);
        }
    }
    refused(
        "the owner of the database can enter neither the temporary directory, /tmp nor /run\nhint: set TMPDIR",
    )
}
