//! Restoring a backup into a scratch directory, starting the database on it, and running the database's own checks.
//!
//! The restored database is private: it accepts no network connections, only those to a socket in the scratch directory, and neither
//! archives, replicates, nor runs jobs. Like all programs that open its files, it runs as their owner. It is killed if this process ends.

mod files;
mod host_trouble;
mod mariadb;
mod postgresql;
mod restored;

use std::path::{Path, PathBuf};
use std::time::Instant;

use poolwright_apply::rewrite::TreeContents;
use poolwright_base::{Scratch, cannot, quoted, room, scratch, time};
use poolwright_dbms::client::ClientFailure;
use poolwright_dbms::database::DatabaseKind;
use poolwright_dbms::program::{ProgramEnd, ProgramOutput, Programs, command_as, run_program, run_shell};
use poolwright_dbms::server;
use schemars::JsonSchema;
use serde::Serialize;

use crate::destination::BackupDestination;
use crate::error::refused;
use crate::manifest::{BackupManifest, CheckVerdict, RestoreCheck, RestoreResult};
use crate::observer::{BackupObserver, BackupStage};
use crate::recovery::{Recovery, RecoveryTarget, RestoreChoice, choose};
use crate::{Error, Result};

use host_trouble::{FILES_CHECK, HostState};
use restored::RestoredTree;

/// Starts the names of the scratch directories.
const SCRATCH_PREFIX: &str = "poolwright-restore-";
/// Space that a started database needs beyond that of its files, in bytes: logs, temporary files.
const EXTRA: u64 = 256 << 20;

/// The options of restoring.
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// Where the scratch directory is made.
    pub scratch: Option<PathBuf>,
    /// A command of the user that checks the restored database.
    pub check: Option<String>,
    /// Where the database's programs are, before those of `programs`.
    pub bindir: Option<PathBuf>,
    /// Where programs are.
    pub programs: Programs,
    /// The limit of the copying, in bytes a second.
    pub rate: Option<u64>,
    /// Replay the log from the WAL archive.
    pub until: Option<RecoveryTarget>,
    /// The dataset of the WAL archive, in place of the one that the backups name.
    pub wal: Option<String>,
}

/// The results of restoring.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RestoreReport {
    /// The dataset of the backups.
    pub dataset: String,
    /// The results, oldest backup first.
    pub restores: Vec<RestoreResult>,
}

impl RestoreReport {
    /// Whether all checks passed.
    pub fn passed(&self) -> bool {
        self.restores.iter().all(|restore| restore.passed)
    }

    /// Whether a backup was tested and did not pass.
    pub fn has_failed(&self) -> bool {
        self.restores.iter().any(RestoreResult::has_failed)
    }
}

/// Restores and checks backups, and records each result, unless the log is replayed.
///
/// # Errors
/// If a backup cannot be copied, or no check can be run; a refusal if there is no such backup or too little space. A check that fails
/// is no error.
pub fn verify(
    dataset: &str,
    choice: &RestoreChoice,
    options: &RestoreOptions,
    observer: &mut dyn BackupObserver,
) -> Result<RestoreReport> {
    let destination = BackupDestination::open(dataset)?;
    let _reading = destination.lock_for_reading()?;
    let wal = options.wal.as_deref();
    let recovery = options.until.map(|target| Recovery::of(&destination, target, wal)).transpose()?;
    let chosen = choose(&destination, choice, options.until.unwrap_or(RecoveryTarget::Backup))?;
    let mut restores = Vec::new();
    for backup in &chosen {
        let result = match restore(&destination, backup, options, recovery.as_ref(), observer) {
            Err(why) if recovery.is_none() && !matches!(why, Error::Interrupted) => {
                // The caller needs the first error, and a replica cannot be written.
                let _ = destination.record(&RestoreResult::untested(backup, why.first_line()));
                return Err(why);
            }
            result => result?,
        };
        // A log that cannot be replayed says nothing about the backup itself.
        if recovery.is_none() {
            destination.record(&result)?;
        }
        restores.push(result);
    }
    Ok(RestoreReport { dataset: dataset.to_owned(), restores })
}

fn restore(
    destination: &BackupDestination,
    backup: &BackupManifest,
    options: &RestoreOptions,
    recovery: Option<&Recovery>,
    observer: &mut dyn BackupObserver,
) -> Result<RestoreResult> {
    if backup.database.kind == DatabaseKind::None && options.check.is_none() {
        return refused("no check for this database is available\nhint: name a command that checks it");
    }
    if let Some(recovery) = recovery {
        recovery.check(destination, backup)?;
    }
    let parent = options.scratch.clone().unwrap_or_else(|| scratch::parent_for(backup.bytes + EXTRA));
    let free = room::available(&parent).map_err(cannot("inspect", &parent))?;
    if free < backup.bytes + EXTRA {
        let (needed, free) = (backup.bytes + EXTRA, poolwright_base::units::format_size(free));
        return refused(format!(
            "restoring {} needs {} in {}, which has {free}\nhint: name another scratch directory",
            backup.name,
            poolwright_base::units::format_size(needed),
            quoted(&parent)
        ));
    }
    let dir =
        Scratch::create(&parent, SCRATCH_PREFIX).map_err(cannot("create a scratch directory in", &parent))?;
    observer.note(&format!("restoring {} in {}", backup.name, quoted(dir.path())));
    observer.stage(BackupStage::Restore);
    let start = Instant::now();
    let root = destination.root_of(&backup.name);
    let (tree, contents) = RestoredTree::copy(&root, backup, &dir, options.rate, observer)?;
    check_reachable(&tree, &parent)?;
    let restore_s = start.elapsed().as_secs_f64();
    observer.stage(BackupStage::Check);
    let start = Instant::now();
    let host = HostState::read();
    let mut checks = vec![compare_contents(backup, &contents)];
    let OwnChecks { checks: own, last_transaction } = own_checks(backup, &tree, options, recovery, observer)?;
    if own.iter().all(|check| check.result == CheckVerdict::NotRun) {
        let why: Vec<String> = own.iter().filter_map(|check| check.detail.clone()).collect();
        return refused(format!(
            "cannot run any check: {}\nhint: install the database's programs, or name a command that checks it",
            why.join("; ")
        ));
    }
    checks.extend(own);
    let untested = host.cause(&checks, tree.scratch.path(), &tree.scratch.path().join(server::LOG));
    let unix_s = time::unix_seconds() as u64;
    Ok(RestoreResult {
        name: backup.name.clone(),
        id: backup.id.clone(),
        time: time::rfc3339(unix_s),
        unix_s,
        until: recovery.and_then(Recovery::until),
        last_transaction,
        passed: checks.iter().all(|check| check.result != CheckVerdict::Failed),
        untested,
        restore_s,
        check_s: start.elapsed().as_secs_f64(),
        checks,
    })
}

/// Refuses a scratch directory that the owner of the database cannot enter: the server would fail for another reason than the backup.
fn check_reachable(tree: &RestoredTree, parent: &Path) -> Result<()> {
    let mut command = command_as(tree.owner, Path::new("/bin/sh"));
    command.args(["-c", "cd \"$0\""]).arg(tree.scratch.path());
    if run_program(command, ProgramOutput::Kept, &|| false)?.status.success() {
        return Ok(());
    }
    let (parent, owner) = (quoted(parent), tree.owner.0);
    refused(format!(
        "user {owner}, who owns the database's files, cannot enter {parent}\nhint: name another scratch directory"
    ))
}

/// The checks of the database and of the user.
fn own_checks(
    backup: &BackupManifest,
    tree: &RestoredTree,
    options: &RestoreOptions,
    recovery: Option<&Recovery>,
    observer: &mut dyn BackupObserver,
) -> Result<OwnChecks> {
    let context = CheckContext { backup, tree, options, recovery };
    let is_interrupted = || observer.is_interrupted();
    let checks = match backup.database.kind {
        DatabaseKind::Postgresql => return postgresql::check(&context, &is_interrupted),
        DatabaseKind::Mariadb => mariadb::check(&context, &is_interrupted),
        DatabaseKind::Sqlite => files::check_sqlite(&context, &is_interrupted),
        DatabaseKind::Openldap => files::check_lmdb(&context, &is_interrupted),
        DatabaseKind::None => context.check_of_user(&[], &is_interrupted),
    };
    Ok(OwnChecks { checks: checks?, last_transaction: None })
}

/// The results of a database's own checks.
#[derive(Debug, Default)]
struct OwnChecks {
    checks: Vec<RestoreCheck>,
    /// The time of the last transaction that was replayed from a WAL archive.
    last_transaction: Option<String>,
}

/// The requirements of a database's checks.
struct CheckContext<'a> {
    backup: &'a BackupManifest,
    tree: &'a RestoredTree,
    options: &'a RestoreOptions,
    recovery: Option<&'a Recovery>,
}

impl CheckContext<'_> {
    /// Where the database's programs are.
    fn programs(&self) -> Programs {
        self.options.programs.clone().after(self.options.bindir.as_deref())
    }

    /// Runs the command of the user, if there is one, with these variables, as the owner of the database.
    fn check_of_user(
        &self,
        variables: &[(&str, &Path)],
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<RestoreCheck>> {
        let Some(command) = &self.options.check else { return Ok(Vec::new()) };
        let owner = self.tree.owner;
        self.tree.give_to(owner)?;
        let root = [("POOLWRIGHT_RESTORED", self.tree.root.as_path())];
        let variables: Vec<_> = root.iter().chain(variables).copied().collect();
        let done = run_shell(command, owner, &variables, is_interrupted)?;
        Ok(vec![check_of(done, command)])
    }
}

fn compare_contents(backup: &BackupManifest, restored: &TreeContents) -> RestoreCheck {
    let is_equal = (backup.files, backup.bytes) == (restored.files, restored.bytes);
    let detail = format!(
        "{} files with {} bytes instead of {} with {}",
        restored.files, restored.bytes, backup.files, backup.bytes
    );
    RestoreCheck {
        name: FILES_CHECK.to_owned(),
        result: if is_equal { CheckVerdict::Passed } else { CheckVerdict::Failed },
        detail: (!is_equal).then_some(detail),
    }
}

/// The check that passed if a program ended with status 0.
fn check_of(end: ProgramEnd, name: &str) -> RestoreCheck {
    match end.status.success() {
        true => passed(name),
        false => failed(name, format!("{}: {}", end.status, end.said)),
    }
}

fn passed(name: &str) -> RestoreCheck {
    RestoreCheck { name: name.to_owned(), result: CheckVerdict::Passed, detail: None }
}

fn failed(name: &str, why: impl Into<String>) -> RestoreCheck {
    RestoreCheck { name: name.to_owned(), result: CheckVerdict::Failed, detail: Some(why.into()) }
}

fn not_run(name: &str, why: impl Into<String>) -> RestoreCheck {
    RestoreCheck { name: name.to_owned(), result: CheckVerdict::NotRun, detail: Some(why.into()) }
}

/// Returns an interruption as an error, and any other failure of a client as text.
fn interruption(failure: ClientFailure) -> Result<String> {
    match failure {
        ClientFailure::Interrupted => Err(Error::Interrupted),
        failure => Ok(failure.to_string()),
    }
}

#[cfg(test)]
mod tests;
