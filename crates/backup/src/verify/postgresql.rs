//! PostgreSQL on a restored data directory.
//!
//! The server's own configuration is not used: it could archive, replicate, preload libraries that run jobs, or refuse connections.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use poolwright_base::cannot;
use poolwright_dbms::postgresql::data_dir::{
    BACKUP_LABEL, Existing, OPTIONS_FILE, PID_FILE, RECOVERY_SIGNAL, STANDBY_SIGNAL, create_empty,
    remove_files, version,
};
use poolwright_dbms::postgresql::{self, private};
use poolwright_dbms::program::{ProgramOutput, command_as, run_program};
use poolwright_dbms::server::{ChildServer, create_log, tied_command};
use rustix::process::Signal;

use super::{CheckContext, OwnChecks, check_of, failed, interruption, not_run, passed};
use crate::Result;
use crate::error::refused;
use crate::manifest::RestoreCheck;

/// Files of the running server, and those that would make the restored one follow another server or wait for an archive. A
/// `backup_label` belongs to another backup than the snapshot.
const REMOVED: [&str; 6] =
    [PID_FILE, OPTIONS_FILE, STANDBY_SIGNAL, RECOVERY_SIGNAL, "recovery.conf", BACKUP_LABEL];

/// Further settings of the restored server, which override those in the data directory (`postgresql.auto.conf`). Limits are large enough for
/// what the log may contain; nothing leaves the server.
const SETTINGS: [&str; 14] = [
    "shared_preload_libraries=",
    "session_preload_libraries=",
    "local_preload_libraries=",
    "archive_command=",
    "primary_conninfo=",
    "max_logical_replication_workers=0",
    "wal_level=logical",
    "max_wal_senders=10",
    "max_replication_slots=1000",
    "max_prepared_transactions=1000",
    "max_connections=100",
    "max_locks_per_transaction=1024",
    "autovacuum=off",
    "fsync=off",
];

/// How long a server may replay an archived log.
const RECOVERY_TIME: Duration = Duration::from_secs(86_400);
/// How long a question may take.
const QUESTION_TIME: Duration = Duration::from_secs(600);
const START: &str = "start and recovery";
/// The time of the last transaction that was replayed.
const LAST_TRANSACTION: &str = "SELECT to_char(pg_last_xact_replay_timestamp() AT TIME ZONE 'UTC', \
     'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"');";
/// The restored server's own configuration, which is empty.
const CONFIGURATION: &str = "postgresql.conf";
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
    let bindir = match &context.options.bindir {
        Some(dir) => Some(dir.clone()),
        None => postgresql::installed(&context.options.programs, &version, tree.owner)?,
    };
    let Some(bindir) = bindir else {
        return Ok(only(not_run(START, format!("the programs of PostgreSQL {version} are not installed"))));
    };
    remove_files(&dir, &REMOVED)?;
    if context.recovery.is_some() {
        create_empty(&dir, RECOVERY_SIGNAL, tree.owner, Existing::Refused)?;
    }
    tree.make_dir(private::SOCKET)?;
    let Some(socket_dir) = private::socket_dir(tree.scratch.path()) else {
        return refused("the path of the scratch directory is too long for a socket\nhint: name another one");
    };
    let facts = &context.backup.database.facts;
    let superuser = facts.get("superuser").cloned().unwrap_or_else(|| "postgres".to_owned());
    let restored = Restored { context, version, bindir, socket_dir, superuser };
    let mut command = tied_command(&context.options.programs, tree.owner, &restored.bindir.join("postgres"))?;
    command.arg("-D").arg(&tree.root);
    command.args(restored.settings()?.iter().flat_map(|setting| ["-c", setting]));
    let log = create_log(&tree.scratch)?;
    drop(dir);
    tree.give_to(tree.owner)?;
    let mut server = ChildServer::start(command, log)?;
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
    let port = [("PGPORT", Path::new(private::PORT))];
    checks.extend(context.check_of_user(&[&socket[..], &port].concat(), is_interrupted)?);
    match server.stop(Signal::INT)? {
        Ok(()) => checks.push(passed(STOP)),
        Err(why) => checks.push(failed(STOP, why)),
    }
    checks.push(restored.checksums(has_checksums.as_deref(), is_interrupted)?);
    Ok(OwnChecks { checks, last_transaction })
}

impl Restored<'_> {
    fn settings(&self) -> Result<Vec<String>> {
        let scratch = &self.context.tree.scratch;
        let written = private::write_authentication(scratch)
            .and_then(|()| private::write_readable(scratch, CONFIGURATION, ""));
        written.map_err(cannot("write files in", scratch.path()))?;
        let settings = private::SETTINGS.iter().chain(&SETTINGS).filter(|setting| self.knows(setting));
        let mut settings: Vec<String> = settings.map(|setting| (*setting).to_owned()).collect();
        // The last value of a setting counts.
        if let Some(recovery) = self.context.recovery {
            // With a hot standby, the server refuses to recover with smaller limits than those of the original.
            settings.push("hot_standby=off".to_owned());
            settings.extend(recovery.settings().into_iter().map(|(name, value)| format!("{name}={value}")));
        }
        settings.push(format!("config_file={}", scratch.path().join(CONFIGURATION).display()));
        settings.extend(private::path_settings(scratch.path()));
        Ok(settings)
    }

    /// Whether this version has the setting: before version 12, two of them were in `recovery.conf`, which is removed.
    fn knows(&self, setting: &str) -> bool {
        let is_of_recovery =
            setting.starts_with("primary_conninfo") || setting.starts_with("restore_command");
        let version: f64 = self.version.parse().unwrap_or(99.0);
        !is_of_recovery || version >= 12.0
    }

    fn command(&self, program: &str) -> Command {
        self.connected(command_as(self.context.tree.owner, &self.bindir.join(program)))
    }

    /// With the arguments and variables of a connection to the server.
    fn connected(&self, mut command: Command) -> Command {
        command.arg("-h").arg(&self.socket_dir).args(["-p", private::PORT, "-U", &self.superuser]);
        command.env_remove("PGOPTIONS").env_remove("PGSERVICE").env("PGDATABASE", "postgres");
        command
    }

    fn psql(&self) -> Command {
        let client = postgresql::psql(self.context.tree.owner, &self.bindir.join("psql"));
        let mut command = self.connected(client);
        command.args(["-d", "template1"]);
        command
    }

    /// Whether the server has recovered and answers.
    fn answers(&self) -> bool {
        let answer = self.ask("SELECT pg_is_in_recovery();", &|| false);
        answer.is_ok_and(|answer| answer.as_deref() == Some("f"))
    }

    /// The first line of the answer, or an empty one; `None` if the server refuses.
    fn ask(&self, statement: &str, is_interrupted: &dyn Fn() -> bool) -> Result<Option<String>> {
        match postgresql::ask(self.psql(), statement, QUESTION_TIME, is_interrupted) {
            Ok(line) => Ok(Some(line)),
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
