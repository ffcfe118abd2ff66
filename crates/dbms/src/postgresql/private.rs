//! Private servers of PostgreSQL: only their owner and root can connect, by a socket in a scratch directory.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use poolwright_base::directory::Directory;

/// The port, which only names the socket.
pub const PORT: &str = "5432";
/// The directory of the socket in the scratch directory.
pub const SOCKET: &str = "socket";

/// The longest path of a socket's directory, in bytes (`unix(7)`), without the name that the server appends.
const MAX_SOCKET_DIR: usize = 107 - "/.s.PGSQL.5432".len();
/// The mode of configuration files, which have no secrets.
const READABLE: u32 = 0o644;
/// The files for authentication: each user who can open the socket may connect.
const AUTHENTICATION: [(&str, &str, &str); 2] =
    [("hba_file", "pg_hba.conf", "local all all trust\n"), ("ident_file", "pg_ident.conf", "")];

/// Settings that keep a server private, regardless of its configuration. It archives nothing, and needs little memory.
pub const SETTINGS: [&str; 10] = [
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "ssl=off",
    "archive_mode=off",
    "restore_command=",
    "huge_pages=off",
    "shared_buffers=128MB",
    "logging_collector=off",
    "log_destination=stderr",
    "external_pid_file=",
];

/// The settings with the paths of a server whose files are in this scratch directory.
pub fn path_settings(scratch: &Path) -> Vec<String> {
    let files =
        AUTHENTICATION.map(|(setting, name, _)| format!("{setting}={}", scratch.join(name).display()));
    let socket = format!("unix_socket_directories={}", scratch.join(SOCKET).display());
    files.into_iter().chain([format!("port={PORT}"), socket]).collect()
}

/// Writes the files for authentication, which the server's user can read.
///
/// # Errors
/// The host's errors.
pub fn write_authentication(scratch: &Directory) -> io::Result<()> {
    AUTHENTICATION.iter().try_for_each(|(_, name, text)| write_readable(scratch, name, text))
}

/// Writes a configuration file, which the server's user can read.
///
/// # Errors
/// The host's errors.
pub fn write_readable(scratch: &Directory, name: &str, text: &str) -> io::Result<()> {
    let mut file = scratch.create_file(name, 0o600)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(READABLE))
}

/// The directory of the socket; `None` if its path is too long for one.
pub fn socket_dir(scratch: &Path) -> Option<PathBuf> {
    Some(scratch.join(SOCKET)).filter(|dir| dir.as_os_str().len() <= MAX_SOCKET_DIR)
}
