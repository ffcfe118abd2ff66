//! The files of PostgreSQL's data directory. The database's user controls it, so no link in it is followed.

use std::io::{ErrorKind, Read as _};

use poolwright_base::directory::{Access, Directory};
use poolwright_base::{cannot, private};

use crate::Result;
use crate::error::refused;
use crate::owner::UserAndGroup;

/// Describes the running server.
pub const PID_FILE: &str = "postmaster.pid";
/// What the running server leaves beside it.
pub const OPTIONS_FILE: &str = "postmaster.opts";
/// The beginning of an online backup.
pub const BACKUP_LABEL: &str = "backup_label";
/// Makes a server a standby when it starts.
pub const STANDBY_SIGNAL: &str = "standby.signal";
/// Makes a server recover from an archive when it starts, since version 12.
pub const RECOVERY_SIGNAL: &str = "recovery.signal";

/// The file with the version of a data directory, and its most bytes that are read.
const VERSION: &str = "PG_VERSION";
const MAX_VERSION: u64 = 64;

/// The version of a data directory: one or two numbers.
///
/// # Errors
/// A refusal if it has none; the host's errors.
pub fn version(dir: &Directory) -> Result<String> {
    let mut text = String::new();
    let read =
        dir.file(VERSION, Access::Read).and_then(|file| file.take(MAX_VERSION).read_to_string(&mut text));
    read.map_err(cannot("read", dir.path().join(VERSION)))?;
    let version = text.trim();
    // It becomes a part of paths.
    match version.bytes().all(|of| of.is_ascii_digit() || of == b'.') && !version.contains("..") {
        true => Ok(version.to_owned()),
        false => refused(format!("{VERSION} has no version of PostgreSQL")),
    }
}

/// Removes files that may not exist. A link is removed itself.
///
/// # Errors
/// The host's errors.
pub fn remove_files(dir: &Directory, names: &[&str]) -> Result<()> {
    for name in names {
        dir.remove_file(name).map_err(cannot("remove", dir.path().join(name)))?;
    }
    Ok(())
}

/// The action if the file exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is an error.
    Refused,
    /// It is left unchanged.
    Kept,
}

/// Creates an empty file that belongs to the owner of the database.
///
/// # Errors
/// The host's errors.
pub fn create_empty(dir: &Directory, name: &str, owner: UserAndGroup, existing: Existing) -> Result<()> {
    let path = dir.path().join(name);
    let file = match dir.create_file(name, private::FILE) {
        Err(why) if why.kind() == ErrorKind::AlreadyExists && existing == Existing::Kept => return Ok(()),
        created => created.map_err(cannot("create", &path))?,
    };
    std::os::unix::fs::fchown(&file, Some(owner.0), Some(owner.1))
        .map_err(cannot("set the owner of", &path))?;
    Ok(file.sync_all().map_err(cannot("sync", path))?)
}
