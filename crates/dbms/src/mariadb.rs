//! MariaDB's and MySQL's command-line client.

use std::path::Path;
use std::process::Command;

use crate::client::ClientFailure;
use crate::owner;
use crate::program::{Programs, command_as};

/// The statement that prints the mark that ends an answer ([`ClientSession::ask`](crate::client::ClientSession::ask)).
pub const PRINT: &str = "SELECT 'MARK';";

/// The client, with these arguments (`connect`). It runs as the owner of the data directory, because a server can request any file that its
/// client can read.
///
/// # Errors
/// [`ClientFailure::Ended`] if it is not installed, or the owner cannot be found.
pub fn client(root: &Path, programs: &Programs, connect: Option<&str>) -> Result<Command, ClientFailure> {
    let program = programs.find_one_of(&["mariadb", "mysql"]);
    let program = program.ok_or_else(|| ClientFailure::Ended("mariadb is not installed".to_owned()))?;
    let owner = owner::of_directory(root)?;
    let mut command = command_as(owner, &program);
    let connect: Vec<&str> = connect.unwrap_or_default().split_whitespace().collect();
    command.args(&connect);
    // The client would take the user who has logged in, before `sudo`.
    let names_user =
        |option: &&str| ["--user", "-u", "--defaults"].iter().any(|beginning| option.starts_with(beginning));
    if let Some(user) = owner::name_of(owner.0).filter(|_| !connect.iter().any(names_user)) {
        command.arg(format!("--user={user}"));
    }
    command.args([
        "--batch",
        "--raw",
        "--skip-column-names",
        "--unbuffered",
        "--skip-reconnect",
        "--local-infile=0",
    ]);
    Ok(command)
}
