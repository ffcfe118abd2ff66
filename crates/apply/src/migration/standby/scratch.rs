//! The directory with a standby's socket and its files for authentication.

use std::io;
use std::path::PathBuf;

use poolwright_base::directory::Directory;
use poolwright_base::{Scratch, cannot};
use poolwright_dbms::owner::UserAndGroup;
use poolwright_dbms::postgresql::private;
use poolwright_dbms::program::{Programs, command_as};

use crate::Result;
use crate::error::refused;

/// Starts the names of the scratch directories.
const SCRATCH_PREFIX: &str = "poolwright-standby-";

/// A directory that the owner of the database can enter, with a directory for the socket and the standby's files for authentication. It is
/// short enough for the path of a socket. Only the directory for the socket belongs to the owner.
pub(super) fn create(owner: UserAndGroup) -> Result<Scratch> {
    let Some(test) = Programs::default().find("test") else {
        return refused("the program `test` is not installed");
    };
    for parent in [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/run")] {
        let Ok(scratch) = Scratch::create(&parent, SCRATCH_PREFIX) else { continue };
        fill(&scratch, owner).map_err(cannot("prepare", scratch.path()))?;
        let mut test = command_as(owner, &test);
        let can_write = |dir: &PathBuf| test.arg("-w").arg(dir).status().is_ok_and(|status| status.success());
        if private::socket_dir(scratch.path()).as_ref().is_some_and(can_write) {
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
    private::write_authentication(&dir)?;
    dir.create_directory(private::SOCKET)?.give_to(owner)
}
