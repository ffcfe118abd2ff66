//! MariaDB on a restored data directory.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use poolwright_dbms::owner::UserAndGroup;
use poolwright_dbms::program::{ProgramOutput, command_as, run_program};
use poolwright_dbms::quiesce::mariadb::{DIRECTORIES, LAYOUT};
use poolwright_dbms::server::{ChildServer, create_log, tied_command};
use rustix::process::Signal;

use super::{CheckContext, check_of, failed, not_run, passed};
use crate::Result;
use crate::manifest::RestoreCheck;

/// Settings of the restored server: no network, no privileges (their tables may be damaged), no replication, no jobs.
const SETTINGS: [&str; 8] = [
    "--no-defaults",
    "--skip-networking",
    "--skip-grant-tables",
    "--skip-slave-start",
    "--skip-log-bin",
    "--event-scheduler=DISABLED",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-fast-shutdown=1",
];
/// The name of the socket.
const SOCKET: &str = "s";
const START: &str = "start and recovery";
const STOP: &str = "shutdown";
const TABLES: &str = "CHECK TABLE";

/// Starts the server, lets it recover, and checks all tables.
pub(super) fn check(
    context: &CheckContext<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Vec<RestoreCheck>> {
    let programs = context.programs();
    let server = programs.find_one_of(&["mariadbd", "mysqld"]);
    let client = programs.find_one_of(&["mariadb-check", "mysqlcheck"]);
    let (Some(server), Some(client)) = (server, client) else {
        return Ok(vec![not_run(START, "mariadbd and mariadb-check are not installed")]);
    };
    let tree = context.tree;
    let socket_dir = tree.make_dir("socket")?;
    let socket = socket_dir.path().join(SOCKET);
    let mut command = tied_command(&context.options.programs, tree.owner, &server)?;
    command.args(arguments(context, socket_dir.path())?);
    let log = create_log(&tree.scratch)?;
    tree.give_to(tree.owner)?;
    let mut server = ChildServer::start(command, log)?;
    // The server makes it when it has recovered, and then listens. Others could put a link to another socket there.
    let answers =
        || socket_dir.inspect(SOCKET).is_ok_and(|meta| meta.is_some_and(|of| of.file_type().is_socket()));
    if let Err(why) = server.wait_until(answers, is_interrupted)? {
        return Ok(vec![failed(START, why)]);
    }
    let mut checks = vec![passed(START), check_tables(&client, tree.owner, &socket, is_interrupted)?];
    checks.extend(context.check_of_user(&[("MYSQL_UNIX_PORT", &socket)], is_interrupted)?);
    match server.stop(Signal::TERM)? {
        Ok(()) => checks.push(passed(STOP)),
        Err(why) => checks.push(failed(STOP, why)),
    }
    Ok(checks)
}

fn arguments(context: &CheckContext<'_>, socket_dir: &Path) -> Result<Vec<OsString>> {
    let tree = context.tree;
    let temporary = tree.make_dir("tmp")?;
    let mut arguments: Vec<OsString> = SETTINGS.iter().map(OsString::from).collect();
    let mut add = |name: &str, value: &Path| arguments.push(format!("--{name}={}", value.display()).into());
    add("datadir", &tree.root);
    add("socket", &socket_dir.join(SOCKET));
    add("pid-file", &socket_dir.join("pid"));
    add("tmpdir", temporary.path());
    if tree.owner.0 == 0 {
        add("user", Path::new("root"));
    }
    let facts = &context.backup.database.facts;
    for name in LAYOUT {
        if let Some(value) = facts.get(name) {
            add(&name.replace('_', "-"), Path::new(value));
        }
    }
    for name in DIRECTORIES {
        if let Some(path) = facts.get(name).map(PathBuf::from) {
            add(&name.replace('_', "-"), &tree.counterpart(&path));
        }
    }
    Ok(arguments)
}

/// The client exits with status 0 even if a table is damaged, so its output decides.
fn check_tables(
    client: &Path,
    owner: UserAndGroup,
    socket: &Path,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<RestoreCheck> {
    let mut command = command_as(owner, client);
    command.args(["--no-defaults", "--user=root", "--all-databases", "--check", "--silent"]);
    command.arg(format!("--socket={}", socket.display()));
    let end = run_program(command, ProgramOutput::Kept, is_interrupted)?;
    // With this option, the client prints only what is wrong.
    let complaint = end.said.split("; ").find(|line| {
        let line = line.trim_start().to_lowercase();
        line.starts_with("error") || line.contains("corrupt")
    });
    Ok(match complaint {
        Some(line) => failed(TABLES, format!("{}: {}", line.trim(), end.said)),
        None => check_of(end, TABLES),
    })
}
