//! The directory with a standby's socket and its files for authentication.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use poolwright_backup::owner::UserAndGroup;
use poolwright_backup::program::{command_as, find_program};
use poolwright_host::Scratch;
use poolwright_host::directory::Directory;

use crate::error::refused;
use crate::{Error, Result};

/// Starts the names of the scratch directories.
const SCRATCH_PREFIX: &str = "poolwright-standby-";
/// The directory of the socket in the scratch directory.
pub(super) const SOCKET: &str = "socket";
/// The longest path of a socket's directory, in bytes (`unix(7)`).
const MAX_SOCKET_DIR: usize = 107 - "/.s.PGSQL.5432".len();

/// The file with the standby's messages.
const LOG: &str = "server.log";

/// A directory that the owner of the database can enter, with a directory for the socket and the standby's files for authentication. It is
/// short enough for the path of a socket. Only the directory for the socket belongs to the owner.
pub(super) fn create(owner: UserAndGroup) -> Result<Scratch> {
    let Some(test) = find_program(None, "test") else {
        return refused("the program `test` is not installed");
    };
    for parent in [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/run")] {
        let Ok(scratch) = Scratch::create(&parent, SCRATCH_PREFIX) else { continue };
        fill(&scratch, owner).map_err(Error::host("prepare", scratch.path()))?;
        let socket_dir = scratch.path().join(SOCKET);
        let mut test = command_as(owner, &test);
        test.arg("-w").arg(&socket_dir);
        if socket_dir.as_os_str().len() <= MAX_SOCKET_DIR
            && test.status().is_ok_and(|status| status.success())
        {
            return Ok(scratch);
        }
    }
    refused(
        "the owner of the database can enter neither the temporary directory, /tmp nor /run\nhint: set TMPDIR",
    )
}

fn fill(scratch: &Scratch, owner: UserAndGroup) -> io::Result<()> {
    let dir = Directory::open(scratch.path())?;
    dir.set_mode(0o711)?;
    for (name, text) in [("pg_hba.conf", "local all all trust\n"), ("pg_ident.conf", "")] {
        let mut file = dir.create_file(name, 0o600)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o644))?;
    }
    dir.create_directory(SOCKET)?.give_to(owner)
}

/// Creates the file for the standby's messages.
pub(super) fn create_log(scratch: &Scratch) -> Result<File> {
    let created = Directory::open(scratch.path()).and_then(|dir| dir.create_file(LOG, 0o600));
    created.map_err(Error::host("create", &scratch.path().join(LOG)))
}
