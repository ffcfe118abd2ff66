//! `poolwright backup wal-create` and `wal-push`: the WAL archive of a PostgreSQL.

use std::path::PathBuf;

use poolwright_backup::wal::{WalArchive, WalArchiveOptions, create};
use poolwright_render::backup_text;

use super::super::pool::settings;
use super::super::pool_connection::{parse_dataset, print_json};
use super::reported;

/// Create a WAL archive: a dataset for the log of a PostgreSQL server, for point-in-time recovery
///
/// Creates the dataset, makes the database's owner its owner, records it with the backups, and prints the settings for the server. If the
/// dataset exists already, only prints the settings. `list` shows the segments and gaps, `verify --until` replays the segments, and `prune`
/// removes those that no backup needs.
#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// Dataset of the backups
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// Dataset of the WAL archive. It is created if it does not exist
    #[arg(long = "to", value_name = "DATASET", value_parser = parse_dataset)]
    archive: String,

    /// Property of the new dataset; may be repeated [default: recordsize=1M, compression=zstd, logbias=throughput]
    #[arg(short = 'o', value_name = "PROP=VALUE")]
    property: Vec<String>,

    /// Mount point of the dataset if it is created. Required on a pool of the user-space engine
    #[arg(long, value_name = "DIR")]
    mountpoint: Option<PathBuf>,

    /// Print one JSON object: {dataset, wal_archive, directory, created, owner, archive_command, restore_command}
    #[arg(long)]
    json: bool,
}

/// Copy a file of PostgreSQL's log into a WAL archive
///
/// For the server's setting `archive_command`. Returns when the copy is on stable storage. Refuses a segment that belongs to another
/// database, is incomplete, or differs from the archived segment of the same name: the server keeps it and tries again. Also refuses a
/// directory that is not a WAL archive, such as the mount point of a dataset that is not mounted.
#[derive(Debug, clap::Args)]
pub struct PushArgs {
    /// Directory of the WAL archive
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// The file, as `%p` names it
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs `wal-create`, and returns its exit code.
pub fn run_create(args: &CreateArgs) -> anyhow::Result<u8> {
    let options = WalArchiveOptions {
        dataset: args.archive.clone(),
        settings: settings(&args.property)?,
        mountpoint: args.mountpoint.clone(),
        program: std::env::current_exe()?,
    };
    let report = reported(args.json, |reporter| create(&args.dataset, &options, reporter))?;
    match args.json {
        true => print_json(&report)?,
        false => print!("{}", backup_text::wal_archive(&report)),
    }
    Ok(0)
}

/// Runs `wal-push`, and returns its exit code.
pub fn run_push(args: &PushArgs) -> anyhow::Result<u8> {
    WalArchive::open(&args.dir)?.push(&args.file)?;
    Ok(0)
}
