//! PostgreSQL on a restored data directory.
//!
//! The server's own configuration is not used: it could archive, replicate, preload libraries that run jobs, or refuse connections.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use poolwright_host::directory::{Access, Directory};
use rustix::process::Signal;

use super::{CheckContext, OwnChecks, check_of, failed, interruption, not_run, passed};
use crate::client::ClientSession;
use crate::error::refused;
use crate::manifest::RestoreCheck;
use crate::placement::{Existing, create_empty, remove_files};
use crate::program::{ProgramOutput, command_as, find_program, run_program};
use crate::restore::RECOVERY_SIGNAL;
use crate::server::ChildServer;
use crate::{Error, Result};

/// Files of the running server, and those that would make the restored one follow another server or wait for an archive. A
/// `backup_label` belongs to another backup than the snapshot.
const REMOVED: [&str; 6] = [
    "postmaster.pid",
    "postmaster.opts",
    "standby.signal",
    "recovery.signal",
    "recovery.conf",
    "backup_label",
];

/// Settings of the restored server, which override those in the data directory (`postgresql.auto.conf`). Limits are large enough for
/// what the log may contain; nothing leaves the server.
const SETTINGS: [&str; 25] = [
    "listen_addresses=",
    "port=5432",
    "unix_socket_permissions=0700",
    "ssl=off",
    "shared_preload_libraries=",
    "session_preload_libraries=",
    "local_preload_libraries=",
    "archive_mode=off",
    "archive_command=",
    "primary_conninfo=",
    "restore_command=",
    "max_logical_replication_workers=0",
    "wal_level=logical",
    "max_wal_senders=10",
    "max_replication_slots=1000",
    "max_prepared_transactions=1000",
    "max_connections=100",
    "max_locks_per_transaction=1024",
    "autovacuum=off",
    "fsync=off",
    "huge_pages=off",
    "shared_buffers=128MB",
    "logging_collector=off",
    "log_destination=stderr",
    "external_pid_file=",
];

/// The longest path of a socket, in bytes (`unix(7)`), without the name that the server appends.
const MAX_SOCKET_DIR: usize = 107 - "/.s.PGSQL.5432".len();
/// How long a server may replay an archived log.
const RECOVERY_TIME: Duration = Duration::from_secs(86_400);
/// How long a question may take.
const QUESTION_TIME: Duration = Duration::from_secs(600);
/// The file with the version of a data directory, and its most bytes that are read.
const VERSION: &str = "PG_VERSION";
const MAX_VERSION: u64 = 64;
const START: &str = "start and recovery";
/// The time of the last transaction that was replayed.
const LAST_TRANSACTION: &str = "SELECT to_char(pg_last_xact_replay_timestamp() AT TIME ZONE 'UTC', \
     'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"');";
const STOP: &str = "shutdown";

/// The programs of a version, and how to reach the restored server.
struct Restored<'a> {
    context: &'a CheckContext<'a>,
    version: String,
    bindir: PathBuf,
    socket_dir: PathBuf,
    superuser: String,
}

/// Starts the server, lets it recover, checks all tables and indexes, dumps all databases, and verifies the checksums of pages.
pub(super) fn check(context: &CheckContext<'_>, is_interrupted: &dyn Fn() -> bool) -> Result<OwnChecks> {
    let only = |check| OwnChecks { checks: vec![check], last_transaction: None };
    let tree = context.tree;
    if tree.owner.0 == 0 {
        return refused("PostgreSQL does not run as root, which owns the files of the backup");
    }
    let dir = tree.own_directory()?;
    let version = version(&dir)?;
    let Some(bindir) = bindir(context, &version)? else {
        return Ok(only(not_run(START, format!("the programs of PostgreSQL {version} are not installed"))));
    };
    remove_files(&dir, &REMOVED)?;
    if context.recovery.is_some() {
        create_empty(&dir, RECOVERY_SIGNAL, tree.owner, Existing::Refused)?;
    }
    let socket_dir = tree.make_dir("socket")?.path().to_owned();
    if socket_dir.as_os_str().len() > MAX_SOCKET_DIR {
        return refused("the path of the scratch directory is too long for a socket\nhint: name another one");
    }
    let facts = &context.backup.database.facts;
    let superuser = facts.get("superuser").cloned().unwrap_or_else(|| "postgres".to_owned());
    let restored = Restored { context, version, bindir, socket_dir, superuser };
    let (program, arguments) = (restored.bindir.join("postgres"), restored.arguments()?);
    let log = tree.create_file("server.log")?;
    drop(dir);
    tree.give_to(tree.owner)?;
    let mut server = ChildServer::start(&program, &arguments, tree.owner, log)?;
    if context.recovery.is_some() {
        server.start_time = RECOVERY_TIME;
    }
    if let Err(why) = server.wait_until(|| restored.answers(), is_interrupted)? {
        return Ok(only(failed(START, why)));
    }
    let mut checks = vec![passed(START)];
    let last_transaction = match context.recovery {
        Some(_) => restored.ask(LAST_TRANSACTION, is_interrupted)?.filter(|time| !time.is_empty()),
        None => None,
    };
    let has_checksums = restored.ask("SHOW data_checksums;", is_interrupted)?;
    checks.push(restored.amcheck(is_interrupted)?);
    checks.push(restored.run("pg_dumpall", &["--no-password"], is_interrupted)?);
    let socket = [("PGHOST", restored.socket_dir.as_path()), ("PGUSER", Path::new(&restored.superuser))];
    let port = [("PGPORT", Path::new("5432"))];
    checks.extend(context.check_of_user(&[&socket[..], &port].concat(), is_interrupted)?);
    match server.stop(Signal::INT)? {
        Ok(()) => checks.push(passed(STOP)),
        Err(why) => checks.push(failed(STOP, why)),
    }
    checks.push(restored.checksums(has_checksums.as_deref(), is_interrupted)?);
    Ok(OwnChecks { checks, last_transaction })
}

impl Restored<'_> {
    fn arguments(&self) -> Result<Vec<OsString>> {
        let tree = self.context.tree;
        let paths = [
            ("config_file", tree.write("postgresql.conf", "")?),
            ("hba_file", tree.write("pg_hba.conf", "local all all trust\n")?),
            ("ident_file", tree.write("pg_ident.conf", "")?),
            ("unix_socket_directories", self.socket_dir.clone()),
        ];
        let mut arguments: Vec<OsString> = vec!["-D".into(), tree.root.clone().into()];
        for setting in SETTINGS.iter().filter(|setting| self.knows(setting)) {
            arguments.extend(["-c".into(), setting.into()]);
        }
        // The last value of a setting counts.
        if let Some(recovery) = self.context.recovery {
            // With a hot standby, the server refuses to recover with smaller limits than those of the original.
            arguments.extend(["-c".into(), "hot_standby=off".into()]);
            for (name, value) in recovery.settings() {
                arguments.extend(["-c".into(), format!("{name}={value}").into()]);
            }
        }
        for (name, path) in paths {
            arguments.extend(["-c".into(), format!("{name}={}", path.display()).into()]);
        }
        Ok(arguments)
    }

    /// Whether this version has the setting: before version 12, two of them were in `recovery.conf`, which is removed.
    fn knows(&self, setting: &str) -> bool {
        let is_of_recovery =
            setting.starts_with("primary_conninfo") || setting.starts_with("restore_command");
        let version: f64 = self.version.parse().unwrap_or(99.0);
        !is_of_recovery || version >= 12.0
    }

    fn command(&self, program: &str) -> Command {
        let mut command = command_as(self.context.tree.owner, &self.bindir.join(program));
        command.arg("-h").arg(&self.socket_dir).args(["-p", "5432", "-U", &self.superuser]);
        command.env_remove("PGOPTIONS").env_remove("PGSERVICE").env("PGDATABASE", "postgres");
        command
    }

    fn psql(&self) -> Command {
        let mut command = self.command("psql");
        command.args(["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", "-d", "template1"]);
        command
    }

    /// Whether the server has recovered and answers.
    fn answers(&self) -> bool {
        let answer = self.ask("SELECT pg_is_in_recovery();", &|| false);
        answer.is_ok_and(|answer| answer.as_deref() == Some("f"))
    }

    /// The first line of the answer; `None` if the server refuses.
    fn ask(&self, statement: &str, is_interrupted: &dyn Fn() -> bool) -> Result<Option<String>> {
        let answer = ClientSession::start(self.psql())
            .and_then(|mut session| session.ask(statement, "\\echo MARK", QUESTION_TIME, is_interrupted));
        match answer {
            Ok(lines) => Ok(lines.into_iter().next()),
            Err(failure) => interruption(failure).map(|_| None),
        }
    }

    fn run(
        &self,
        program: &str,
        arguments: &[&str],
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<RestoreCheck> {
        if !self.bindir.join(program).is_file() {
            return Ok(not_run(program, "it is not installed"));
        }
        let mut command = self.command(program);
        command.args(arguments);
        Ok(check_of(run_program(command, ProgramOutput::Discarded, is_interrupted)?, program))
    }

    /// Checks tables and indexes, and that each index has all rows of its table.
    fn amcheck(&self, is_interrupted: &dyn Fn() -> bool) -> Result<RestoreCheck> {
        let name = "pg_amcheck";
        let question = "SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck';";
        if self.ask(question, is_interrupted)?.as_deref() != Some("1") {
            return Ok(not_run(name, "the extension amcheck is not installed"));
        }
        if !self.bindir.join(name).is_file() {
            return Ok(not_run(name, "it is not installed"));
        }
        let mut command = self.command(name);
        command.args(["--all", "--install-missing", "--heapallindexed", "--no-password"]);
        let end = run_program(command, ProgramOutput::Kept, is_interrupted)?;
        Ok(check_of(end, name))
    }

    /// Verifies the checksums of all pages, after the server was shut down.
    fn checksums(&self, enabled: Option<&str>, is_interrupted: &dyn Fn() -> bool) -> Result<RestoreCheck> {
        let name = "pg_checksums";
        if enabled != Some("on") {
            return Ok(not_run(name, "the database has no checksums of pages"));
        }
        let program = self.bindir.join(name);
        if !program.is_file() {
            return Ok(not_run(name, "it is not installed"));
        }
        let mut command = command_as(self.context.tree.owner, &program);
        command.arg("--check").arg("-D").arg(&self.context.tree.root);
        Ok(check_of(run_program(command, ProgramOutput::Kept, is_interrupted)?, name))
    }
}

/// The version of a data directory: one or two numbers.
fn version(dir: &Directory) -> Result<String> {
    let mut text = String::new();
    let read =
        dir.file(VERSION, Access::Read).and_then(|file| file.take(MAX_VERSION).read_to_string(&mut text));
    read.map_err(Error::host("read", &dir.path().join(VERSION)))?;
    let version = text.trim();
    // It becomes a part of paths.
    match version.bytes().all(|of| of.is_ascii_digit() || of == b'.') && !version.contains("..") {
        true => Ok(version.to_owned()),
        false => refused(format!("{VERSION} has no version of PostgreSQL")),
    }
}

/// The directory of the programs of this version.
fn bindir(context: &CheckContext<'_>, version: &str) -> Result<Option<PathBuf>> {
    if let Some(dir) = &context.options.bindir {
        return Ok(Some(dir.clone()));
    }
    let usual = [format!("/usr/lib/postgresql/{version}/bin"), format!("/usr/pgsql-{version}/bin")];
    let usual = usual.into_iter().map(PathBuf::from).find(|dir| dir.join("postgres").is_file());
    let found = usual.or_else(|| find_program(None, "postgres")?.parent().map(Path::to_owned));
    let Some(dir) = found else { return Ok(None) };
    let mut command = command_as(context.tree.owner, &dir.join("postgres"));
    command.arg("--version");
    let end = run_program(command, ProgramOutput::Kept, &|| false)?;
    let is_it = end.said.split_whitespace().any(|word| {
        word.strip_prefix(version)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', 'b', 'r', 'd']))
    });
    Ok(is_it.then_some(dir))
}
