//! `poolwright backup restore`: restores a database for use.

use std::path::PathBuf;

use poolwright_backup::recovery::RecoveryTarget;
use poolwright_backup::restore::{RestoreRun, RestoreRunOptions};
use poolwright_render::backup_text;

use super::super::options::parse_size;
use super::super::pool_connection::{parse_dataset, print_json};
use super::{parse_until, reported};

/// Restore a database from a backup, for use
///
/// Copies the files into the directories that they were in when the backup was made, or below another one, and compares them. Nothing is
/// overwritten: each directory must be missing or empty. Until the restore is complete, only root can enter the directories; to continue an
/// interrupted restore, run the same command again. The database is not started.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Dataset of the backups
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// The backup [default: the newest, or the newest before --until]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Directory below which the directories are restored with their paths, such as DIR/srv/pg for /srv/pg
    /// [default: their original paths]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,

    /// Prepare PostgreSQL to replay the log of the WAL archive when it is started, up to this time (RFC 3339, such as 2026-03-01T14:05:00Z)
    /// or to its end (latest)
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    until: Option<RecoveryTarget>,

    /// Dataset of the WAL archive, such as a replica of it [default: the one created by wal-create]
    #[arg(long, value_name = "DATASET", value_parser = parse_dataset)]
    wal: Option<String>,

    /// Copy at most this many bytes per second
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<u64>,

    /// Print what would be restored, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Print one JSON object: {dataset, backup, created, dry_run, directories, files, bytes, until, settings, notes}
    #[arg(long)]
    json: bool,
}

/// Runs the verb, and returns its exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let options = RestoreRunOptions {
        name: args.name.clone(),
        below: args.to.clone(),
        until: args.until,
        wal: args.wal.clone(),
        rate: args.rate,
    };
    let prepared = RestoreRun::prepare(&args.dataset, options)?;
    let report = match args.dry_run {
        true => prepared.report(true),
        false => reported(args.json, |reporter| prepared.execute(reporter))?,
    };
    match args.json {
        true => print_json(&report)?,
        false => print!("{}", backup_text::restored(&report)),
    }
    Ok(0)
}
