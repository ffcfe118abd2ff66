//! PostgreSQL: the running server of a data directory, its files and programs, and private servers.

pub mod control;
pub mod data_dir;
pub mod headers;
pub mod private;
pub mod wal_file;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use poolwright_base::directory::{Access, Directory};

use crate::Result;
use crate::client::{ClientFailure, ClientSession};
use crate::owner::{self, UserAndGroup};
use crate::program::{ProgramOutput, Programs, command_as, is_trusted_by, run_program};

/// The statement of `psql` that prints the mark that ends an answer ([`ClientSession::ask`](crate::client::ClientSession::ask)).
pub const PRINT: &str = "\\echo MARK";

/// The name of the client.
const CLIENT: &str = "psql";
/// The bytes of the file that describes the running server that are read at most.
const MAX_PID_FILE: u64 = 4096;
/// The arguments of the client: no file of the user, plain lines, no password, and an end at the first error.
const CLIENT_ARGUMENTS: [&str; 7] = ["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1"];

/// The server that a file `postmaster.pid` describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresqlServer {
    /// The data directory.
    pub root: PathBuf,
    /// The process ID of its first process.
    pub pid: i32,
    /// Its port.
    pub port: String,
    /// The directory of its socket; empty if it has none.
    pub socket_dir: String,
    /// User and group of the data directory's owner, as whom the server runs.
    owner: UserAndGroup,
    /// The client: the one beside the server's program, or else an installed one.
    client: PathBuf,
}

impl PostgresqlServer {
    /// The running server on a data directory.
    ///
    /// # Errors
    /// If its owner cannot be found.
    pub fn of(root: &Path) -> Result<Option<PostgresqlServer>> {
        let Some(text) = pid_file(root) else { return Ok(None) };
        let Some(mut server) = PostgresqlServer::parse(root, &text, owner::of_directory(root)?) else {
            return Ok(None);
        };
        let program = poolwright_base::process::program(server.pid);
        // The owner of the directory can write the ID of any process into the file.
        let beside = program.map(|path| path.with_file_name(CLIENT)).filter(|path| path.is_file());
        let is_trusted = |path: &PathBuf| path.parent().is_some_and(|dir| is_trusted_by(server.owner, dir));
        if let Some(beside) = beside.filter(is_trusted) {
            server.client = beside;
        }
        Ok(poolwright_base::process::is_running(server.pid).then_some(server))
    }

    fn parse(root: &Path, text: &str, owner: UserAndGroup) -> Option<PostgresqlServer> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let [pid, _, _, port, socket_dir, ..] = lines[..] else { return None };
        // The number is negative if the server runs for a single user.
        let pid = pid.parse::<i32>().ok()?.checked_abs()?;
        let (root, port, socket_dir) = (root.to_owned(), port.to_owned(), socket_dir.to_owned());
        let client = Programs::default().find(CLIENT).unwrap_or_else(|| Path::new("/usr/bin").join(CLIENT));
        Some(PostgresqlServer { root, pid, port, socket_dir, owner, client })
    }

    /// User and group of the data directory's owner, as whom the server runs.
    pub fn owner(&self) -> UserAndGroup {
        self.owner
    }

    /// The client: as the owner of the data directory, whom a server usually lets in through its socket. `connect` is a connection string
    /// in place of that.
    pub fn psql(&self, connect: Option<&str>) -> Command {
        let mut command = psql(self.owner, &self.client);
        command.env("PGAPPNAME", "poolwright").env_remove("PGOPTIONS");
        match connect {
            Some(connect) => command.args(["-d", connect]),
            None => {
                if !self.socket_dir.is_empty() {
                    command.args(["-h", &self.socket_dir]);
                }
                command.args(["-p", &self.port, "-d", "postgres"])
            }
        };
        command
    }
}

/// A client that runs as a user, and prints its answers as plain lines.
pub fn psql(owner: UserAndGroup, client: &Path) -> Command {
    let mut command = command_as(owner, client);
    command.args(CLIENT_ARGUMENTS);
    command
}

/// The first line of the answer to a statement; empty if there is none.
///
/// # Errors
/// [`ClientFailure`].
pub fn ask(
    psql: Command,
    statement: &str,
    limit: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> std::result::Result<String, ClientFailure> {
    let lines = ClientSession::start(psql)?.ask(statement, PRINT, limit, is_interrupted)?;
    Ok(lines.into_iter().next().unwrap_or_default())
}

/// The directory of the installed programs of a version, which is found as a user; `None` if it is not installed.
///
/// # Errors
/// [`Error::Program`](crate::Error::Program) if a program cannot be started.
pub fn installed(programs: &Programs, version: &str, user: UserAndGroup) -> Result<Option<PathBuf>> {
    let usual = [format!("/usr/lib/postgresql/{version}/bin"), format!("/usr/pgsql-{version}/bin")];
    let usual = usual.into_iter().map(PathBuf::from).find(|dir| dir.join("postgres").is_file());
    let found = usual.or_else(|| programs.find("postgres")?.parent().map(Path::to_owned));
    let Some(dir) = found else { return Ok(None) };
    let mut command = command_as(user, &dir.join("postgres"));
    command.arg("--version");
    let end = run_program(command, ProgramOutput::Kept, &|| false)?;
    let is_it = end.said.split_whitespace().any(|word| {
        word.strip_prefix(version)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', 'b', 'r', 'd']))
    });
    Ok(is_it.then_some(dir))
}

/// The text of the file that describes the running server; `None` if there is none.
fn pid_file(root: &Path) -> Option<String> {
    let file = Directory::open(root).and_then(|dir| dir.file(data_dir::PID_FILE, Access::Read)).ok()?;
    let mut text = String::new();
    file.take(MAX_PID_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_found_by_its_file() {
        let text = "1234\n/srv/db\n1700000000\n5433\n/run/postgresql\n*\n  5433001    32768\nready   \n";
        let root = PathBuf::from("/srv/db");
        let found = PostgresqlServer::parse(&root, text, (7, 8)).unwrap();
        assert_eq!(
            (found.pid, found.port.as_str(), found.socket_dir.as_str()),
            (1234, "5433", "/run/postgresql")
        );
        assert_eq!(found.owner(), (7, 8));
        for text in ["1234\n/srv/db\n", &text.replace("1234", "-2147483648")] {
            assert_eq!(PostgresqlServer::parse(&root, text, (7, 8)), None);
        }
    }

    #[test]
    fn what_the_owner_puts_in_the_place_of_the_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (root, text) = (dir.path(), format!("{}\n/srv\n1\n5433\n/run\n*\n", std::process::id()));
        assert_eq!(PostgresqlServer::of(root).unwrap(), None);
        std::fs::write(root.join("elsewhere"), &text).unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere"), root.join("postmaster.pid")).unwrap();
        assert_eq!(PostgresqlServer::of(root).unwrap(), None);
        std::fs::rename(root.join("elsewhere"), root.join("postmaster.pid")).unwrap();
        let found = PostgresqlServer::of(root).unwrap().unwrap();
        // Not one beside the program of the process that the file names, which is this test.
        assert!(found.client.is_absolute() && found.client.ends_with("bin/psql"), "{found:?}");
    }
}
