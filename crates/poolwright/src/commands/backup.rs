//! `poolwright backup`: snapshot-based backups of a database: restores, restore tests, archive, replication, retention, and the WAL
//! archive.

mod archive;
mod restore;
mod run;
mod send;
mod summary;
mod wal;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use poolwright_backup::prune::prune;
use poolwright_backup::recovery::{RecoveryTarget, RestoreChoice};
use poolwright_backup::retention::RetentionRules;
use poolwright_backup::verify::{RestoreOptions, verify};
use poolwright_backup::{BackupObserver, BackupStage, listing};
use poolwright_base::Exit;
use poolwright_base::units::format_size;
use poolwright_dbms::program::Programs;
use poolwright_lab::run::Update;
use poolwright_render::backup_text;

use super::options::parse_size;
use super::pool_connection::{parse_dataset, print_json};
use crate::interrupt;
use crate::progress_line::ProgressLine;

/// Back up a database by snapshots; test, restore, archive, replicate and remove backups
///
/// A backup is a snapshot of a dataset that holds a copy of the database's directories. Works on datasets of the kernel's OpenZFS
/// (as root) and on mounted pools of the user-space engine.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Args),
    List(ListArgs),
    Verify(VerifyArgs),
    Restore(restore::Args),
    Archive(archive::Args),
    Send(send::Args),
    Prune(PruneArgs),
    WalCreate(wal::CreateArgs),
    WalPush(wal::PushArgs),
}

/// List the backups in a dataset
///
/// Also prints the age of the last restore that passed its checks. An interrupted run leaves no backup, so all listed backups are complete.
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Dataset of the backups
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// Dataset of the WAL archive, such as a replica of it [default: the one created by wal-create]
    #[arg(long, value_name = "DATASET", value_parser = parse_dataset)]
    wal: Option<String>,

    /// Print one JSON object: {dataset, backups, last_good_restore_age_s, newest_good_backup_age_s, wal, others}
    #[arg(long)]
    json: bool,
}

/// Restore backups into a scratch directory, start the database there, and check it
///
/// The restored database accepts no network connections. PostgreSQL: start and recovery, `pg_amcheck`, `pg_dumpall`, checksums of pages;
/// MariaDB: start and recovery, CHECK TABLE of all tables; SQLite: `PRAGMA integrity_check`; LMDB: `mdb_dump`. The results are stored with
/// the backups. Exit code 1 means that a check failed, or that a backup could not be tested because the host lacked memory, space or a
/// program.
#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// Dataset of the backups
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// The backup [default: the newest]
    #[arg(value_name = "NAME", conflicts_with = "all")]
    name: Option<String>,

    /// Restore every backup
    #[arg(long, conflicts_with = "until")]
    all: bool,

    /// Replay the log of the WAL archive up to this time (RFC 3339, such as 2026-03-01T14:05:00Z), or to its end (latest). Restores the newest
    /// backup before it, or the named one. PostgreSQL only
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    until: Option<RecoveryTarget>,

    /// Dataset of the WAL archive, such as a replica of it [default: the one created by wal-create]
    #[arg(long, value_name = "DATASET", value_parser = parse_dataset, requires = "until")]
    wal: Option<String>,

    /// Command that checks the restored database, in addition to the database's own checks. It can connect to PostgreSQL (PGHOST and PGUSER
    /// are set) and to MariaDB (MYSQL_UNIX_PORT is set); POOLWRIGHT_RESTORED is the restored directory. It runs as the owner of that
    /// directory
    #[arg(long, value_name = "CMD")]
    check: Option<String>,

    /// Directory in which the scratch directory is created. Default: /dev/shm if it has enough room, otherwise TMPDIR
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Directory of the database's programs. Default: the distribution's, for the version of the backup
    #[arg(long, value_name = "DIR")]
    bindir: Option<PathBuf>,

    /// Copy at most this many bytes per second
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<u64>,

    /// Print one JSON object: {dataset, restores}
    #[arg(long)]
    json: bool,
}

/// Remove old backups
///
/// Always keeps the newest backup, and the newest one that passed a restore. Keeps all backups if none has passed a restore. Keeps a backup
/// if one of the options keeps it. Also removes segments of the WAL archive that none of the remaining backups needs.
#[derive(Debug, clap::Args)]
struct PruneArgs {
    /// Dataset of the backups
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// Keep this number of the newest backups, not counting those that failed a restore
    #[arg(long, value_name = "N", required_unless_present = "keep_for")]
    keep: Option<usize>,

    /// Keep backups younger than this: 12h, 30d, 8w
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    keep_for: Option<Duration>,

    /// Keep backups that are not yet in this archive, except those that failed a restore
    #[arg(long, value_name = "DATASET", value_parser = parse_dataset)]
    archive: Option<String>,

    /// Remove backups even if none has passed a restore
    #[arg(long)]
    unverified: bool,

    /// Continue even if a backup is dated in the future by this host's clock
    #[arg(long)]
    accept_future: bool,

    /// Print what would be removed, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Print one JSON object: {dataset, dry_run, decisions, wal}
    #[arg(long)]
    json: bool,
}

/// Runs the verb, and returns its exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.verb {
        Verb::Run(args) => run::run(args),
        Verb::List(args) => list(args),
        Verb::Verify(args) => check(args),
        Verb::Restore(args) => restore::run(args),
        Verb::Archive(args) => archive::run(args),
        Verb::Send(args) => send::run(args),
        Verb::Prune(args) => remove(args),
        Verb::WalCreate(args) => wal::run_create(args),
        Verb::WalPush(args) => wal::run_push(args),
    }
}

fn list(args: &ListArgs) -> anyhow::Result<u8> {
    let list = listing::list(&args.dataset, args.wal.as_deref())?;
    match args.json {
        true => print_json(&list)?,
        false => print!("{}", backup_text::list(&list, crate::stdout::terminal())),
    }
    Ok(0)
}

fn check(args: &VerifyArgs) -> anyhow::Result<u8> {
    let choice = match (&args.name, args.all) {
        (Some(name), _) => RestoreChoice::Named(name.clone()),
        (None, true) => RestoreChoice::All,
        (None, false) => RestoreChoice::Newest,
    };
    let options = RestoreOptions {
        scratch: args.scratch.clone(),
        check: args.check.clone(),
        bindir: args.bindir.clone(),
        programs: Programs::default(),
        rate: args.rate,
        until: args.until,
        wal: args.wal.clone(),
    };
    let report = reported(args.json, |reporter| verify(&args.dataset, &choice, &options, reporter))?;
    summary::keep(&args.dataset);
    match args.json {
        true => print_json(&report)?,
        false => print!("{}", backup_text::restores(&report)),
    }
    let untested = report.restores.iter().find_map(|of| Some((&of.name, of.untested.as_ref()?)));
    match untested.filter(|_| !report.has_failed()) {
        Some((name, why)) => Err(anyhow!(
            "the backup {name} could not be tested: {why}\nhint: this is no evidence against the backup; free memory or space, and try again"
        )),
        None => Ok(if report.passed() { 0 } else { Exit::Failed.code() }),
    }
}

fn remove(args: &PruneArgs) -> anyhow::Result<u8> {
    let rules = RetentionRules {
        keep: args.keep,
        keep_for: args.keep_for,
        allows_unverified: args.unverified,
        accepts_future: args.accept_future,
    };
    let report = prune(&args.dataset, &rules, args.archive.as_deref(), args.dry_run)?;
    if !args.dry_run {
        summary::keep(&args.dataset);
    }
    match args.json {
        true => print_json(&report)?,
        false => print!("{}", backup_text::prune(&report)),
    }
    Ok(0)
}

/// For clap: a time, or `latest`.
fn parse_until(text: &str) -> Result<RecoveryTarget, String> {
    match text {
        "latest" => Ok(RecoveryTarget::Latest),
        text => poolwright_base::time::parse_rfc3339(text).map(RecoveryTarget::Time).ok_or_else(|| {
            "a time with its zone, such as 2026-03-01T14:05:00Z or 2026-03-01T15:05:00+01:00, or latest"
                .to_owned()
        }),
    }
}

/// For clap: a number of minutes, hours, days or weeks.
fn parse_age(text: &str) -> Result<Duration, String> {
    let unit = match text.chars().last() {
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        Some('w') => 7 * 86_400,
        _ => 0,
    };
    let number = text.get(..text.len().saturating_sub(1)).and_then(|number| number.parse::<u64>().ok());
    let seconds = number.and_then(|number| number.checked_mul(unit)).filter(|_| unit > 0);
    seconds.map(Duration::from_secs).ok_or_else(|| "a number with a unit: 90m, 12h, 30d, 8w".to_owned())
}

/// Performs a run, whose progress is shown. Ctrl-C does not end this process but interrupts the run. `is_quiet`: only remarks are
/// shown.
fn reported<T>(
    is_quiet: bool,
    run: impl FnOnce(&mut BackupReporter) -> poolwright_backup::Result<T>,
) -> anyhow::Result<T> {
    interrupt::watch_patiently()?;
    let mut reporter = BackupReporter { line: ProgressLine::new(""), is_quiet, title: "" };
    let done = run(&mut reporter);
    reporter.line.end();
    Ok(done?)
}

/// Shows the progress of a run on standard error.
struct BackupReporter {
    line: ProgressLine,
    is_quiet: bool,
    title: &'static str,
}

impl BackupObserver for BackupReporter {
    fn stage(&mut self, stage: BackupStage) {
        self.title = stage.title();
        if self.line.is_live() || !self.is_quiet {
            self.line.show(vec![Update::Status(self.title.to_owned())]);
        }
    }

    fn progress(&mut self, done: u64, total: u64) {
        if self.line.is_live() {
            let text =
                format!("{}: {} of about {}", self.title, format_size(done), format_size(total.max(done)));
            self.line.show(vec![Update::Detail(text)]);
        }
    }

    fn note(&mut self, text: &str) {
        self.line.show(vec![Update::Line(format!("poolwright: note: {text}"))]);
    }

    fn is_interrupted(&self) -> bool {
        interrupt::requested()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_a_recovery() {
        assert_eq!(parse_until("latest"), Ok(RecoveryTarget::Latest));
        assert_eq!(parse_until("2026-03-01T15:05:00+01:00"), parse_until("2026-03-01T14:05:00Z"));
        for wrong in
            ["", "Latest", "2026-03-01", "2026-03-01 14:05", "2026-03-01T14:05:00", "1960-01-01T00:00:00Z"]
        {
            assert!(parse_until(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ages() {
        let seconds = |text| parse_age(text).map(|age| age.as_secs());
        assert_eq!(seconds("90m"), Ok(5400));
        assert_eq!(seconds("12h"), Ok(43_200));
        assert_eq!(seconds("30d"), Ok(2_592_000));
        assert_eq!(seconds("2w"), Ok(1_209_600));
        for wrong in [
            "",
            "d",
            "30",
            "30s",
            "-1d",
            "1.5d",
            "30 d",
            "99999999999999999999d",
            "9999999999999999999d",
            "1ä",
        ] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
    }
}
