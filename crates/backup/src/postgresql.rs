//! The running PostgreSQL server of a data directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::command_as;

/// The statement of `psql` that prints the mark that ends an answer ([`ClientSession::ask`](crate::client::ClientSession::ask)).
pub const PRINT: &str = "\\echo MARK";

/// The name of the client.
const CLIENT: &str = "psql";

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
    /// The client: the one beside the server's program, or else the one in `PATH`.
    client: PathBuf,
}

impl PostgresqlServer {
    /// The running server on a data directory.
    pub fn of(root: &Path) -> Option<PostgresqlServer> {
        let text = fs::read_to_string(root.join("postmaster.pid")).ok()?;
        let mut server = PostgresqlServer::parse(root, &text)?;
        let program = poolwright_host::process::program(server.pid);
        if let Some(beside) = program.map(|path| path.with_file_name(CLIENT)).filter(|path| path.is_file()) {
            server.client = beside;
        }
        poolwright_host::process::is_running(server.pid).then_some(server)
    }

    fn parse(root: &Path, text: &str) -> Option<PostgresqlServer> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let [pid, _, _, port, socket_dir, ..] = lines[..] else { return None };
        // That of a server that runs for a single user is negative.
        let pid = pid.parse::<i32>().ok()?.abs();
        let (root, port, socket_dir) = (root.to_owned(), port.to_owned(), socket_dir.to_owned());
        Some(PostgresqlServer { root, pid, port, socket_dir, client: PathBuf::from(CLIENT) })
    }

    /// User and group of the data directory's owner, as whom the server runs.
    pub fn owner(&self) -> (u32, u32) {
        fs::metadata(&self.root).map_or((0, 0), |meta| (meta.uid(), meta.gid()))
    }

    /// The client: as the owner of the data directory, whom a server usually lets in through its socket. `connect` is a connection string
    /// in place of that.
    pub fn psql(&self, connect: Option<&str>) -> Command {
        let mut command = command_as(self.owner(), &self.client);
        command.args(["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_found_by_its_file() {
        let text = "1234\n/srv/db\n1700000000\n5433\n/run/postgresql\n*\n  5433001    32768\nready   \n";
        let root = PathBuf::from("/srv/db");
        let found = PostgresqlServer::parse(&root, text).unwrap();
        assert_eq!(
            (found.pid, found.port.as_str(), found.socket_dir.as_str()),
            (1234, "5433", "/run/postgresql")
        );
        assert_eq!(PostgresqlServer::parse(&root, "1234\n/srv/db\n"), None);
        assert_eq!(PostgresqlServer::of(tempfile::tempdir().unwrap().path()), None);
    }
}
