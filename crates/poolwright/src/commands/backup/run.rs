//! `poolwright backup run`: makes a backup.

use std::path::PathBuf;
use std::time::Duration;

use poolwright_backup::creation;
use poolwright_backup::run::{AcceptedOddities, BackupOptions, BackupReport, BackupRun};
use poolwright_dbms::database::DatabaseKind;
use poolwright_dbms::program::Programs;
use poolwright_dbms::quiesce::{Hook, QuiesceOptions};
use poolwright_openzfs::property;
use poolwright_render::backup_text;

use super::super::options::{parse_size, parse_time};
use super::super::pool_connection::{parse_dataset, print_json};
use super::super::unsafe_values::UnsafeValueArgs;
use super::{reported, summary};

/// Make a backup of a database
///
/// Quiesces the database in one session, takes one atomic snapshot of all its datasets, and releases the database. Then updates the copy in
/// the backup dataset, writing only what has changed, compares it with the snapshot, and takes a snapshot of the backup dataset: the
/// backup. If the run is interrupted or killed, the database is released, the earlier backups are unchanged, and the next run continues.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directories of the database, on datasets of one pool. They include the directories to which PostgreSQL's links lead, and the
    /// datasets that are mounted in them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Dataset of the backups. It is created if it does not exist
    #[arg(long = "to", value_name = "DATASET", value_parser = parse_dataset)]
    destination: String,

    /// Plan whose role `backup` gives the properties of a new dataset [default: recordsize=1M, compression=zstd,
    /// logbias=throughput]
    #[arg(long, value_name = "PLAN")]
    plan: Option<PathBuf>,

    #[command(flatten)]
    unsafe_values: UnsafeValueArgs,

    /// Mount point of the dataset if it is created. Required on a pool of the user-space engine
    #[arg(long, value_name = "DIR")]
    mountpoint: Option<PathBuf>,

    /// postgresql, mariadb, sqlite, openldap (LMDB), or none (the atomic snapshot is enough) [default: detected]
    #[arg(long, value_name = "NAME", value_parser = parse_database)]
    database: Option<DatabaseKind>,

    /// How the database's client connects: a connection string for PostgreSQL, options of the client for MariaDB
    /// [default: PostgreSQL: the socket of the server on the directory; MariaDB: the client's defaults]
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    connect: Option<String>,

    /// Command that quiesces the database, instead of its client
    #[arg(long, value_name = "CMD", requires = "thaw", conflicts_with = "connect")]
    freeze: Option<String>,

    /// Command that releases the database. It runs once after each --freeze, even if that command fails or poolwright is killed
    #[arg(long, value_name = "CMD", requires = "freeze")]
    thaw: Option<String>,

    /// Release the database and give up if the snapshot takes longer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_limit)]
    max_quiesced: Duration,

    /// Copy at most this many bytes per second
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<u64>,

    /// Keep the snapshots of the database's datasets
    #[arg(long)]
    keep_source: bool,

    /// Continue even if the last backup is dated in the future by this host's clock
    #[arg(long)]
    accept_future: bool,

    /// Continue even if a directory is on a different dataset than in the last backup, or no files are left
    #[arg(long)]
    accept_change: bool,

    /// Print what would be done, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Print one JSON object: {assessment, backup}
    #[arg(long)]
    json: bool,
}

fn parse_database(text: &str) -> Result<DatabaseKind, String> {
    let known = DatabaseKind::ALL.map(DatabaseKind::name).join(", ");
    DatabaseKind::from_name(text).ok_or_else(|| format!("known: {known}"))
}

pub(super) fn parse_limit(text: &str) -> Result<Duration, String> {
    let time = parse_time(text).map_err(|why| why.to_string())?;
    if time >= Duration::from_secs(1) { Ok(time) } else { Err("1 s or more".to_owned()) }
}

/// Runs the verb, and returns its exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let hook = args.freeze.clone().zip(args.thaw.clone()).map(|(freeze, thaw)| Hook { freeze, thaw });
    let settings = creation::settings(args.plan.as_deref().map(|path| (path, args.unsafe_values.allowed())))?;
    for risk in property::risks(&settings) {
        eprintln!("poolwright: warning: {}: {risk}", args.destination);
    }
    let options = BackupOptions {
        destination: args.destination.clone(),
        settings,
        mountpoint: args.mountpoint.clone(),
        database: args.database,
        quiesce: QuiesceOptions {
            connect: args.connect.clone(),
            hook,
            limit: args.max_quiesced,
            programs: Programs::default(),
        },
        rate: args.rate,
        keep_source: args.keep_source,
        accepts: AcceptedOddities { future: args.accept_future, change: args.accept_change },
    };
    let prepared = BackupRun::prepare(&args.paths, options)?;
    let assessment = prepared.assessment();
    if args.dry_run {
        match args.json {
            true => print_json(&BackupReport { assessment, backup: None })?,
            false => print!("{}", backup_text::assessment(&assessment)),
        }
        return Ok(0);
    }
    let backup = reported(args.json, |reporter| prepared.execute(reporter))?;
    summary::keep(&args.destination);
    match args.json {
        true => print_json(&BackupReport { assessment, backup: Some(backup) })?,
        false => print!("{}", backup_text::backup(&assessment.destination, &backup)),
    }
    Ok(0)
}
