//! `poolwright backup archive`: copies backups into an archive.

use std::path::PathBuf;

use poolwright_backup::archive::{ArchiveOptions, ArchiveReport, ArchiveRun};
use poolwright_render::backup_text;

use super::super::options::parse_size;
use super::super::pool::settings;
use super::super::pool_connection::{parse_dataset, print_json};
use super::{reported, summary};

/// Copy backups into an archive: a dataset with large records and strong compression
///
/// Copies the backups that are newer than the newest one in the archive, oldest first, by reading and writing; compares each copy, and
/// takes a snapshot of it with the name of the backup. Skips backups that failed a restore. If the run is interrupted or killed, the next
/// run continues. `list`, `verify` and `prune` work on the archive as on the dataset of the backups.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Dataset of the backups
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// Copy only this backup, even if it is older than those in the archive
    #[arg(value_name = "NAME", conflicts_with = "verified")]
    name: Option<String>,

    /// Dataset of the archive. It is created if it does not exist
    #[arg(long = "to", value_name = "DATASET", value_parser = parse_dataset)]
    archive: String,

    /// Property of the new archive; may be repeated [default: recordsize=16M (or 1M, 128K: the largest that the pool supports),
    /// compression=zstd-19, logbias=throughput]
    #[arg(short = 'o', value_name = "PROP=VALUE")]
    property: Vec<String>,

    /// Mount point of the archive if it is created. Required on a pool of the user-space engine
    #[arg(long, value_name = "DIR")]
    mountpoint: Option<PathBuf>,

    /// Copy only backups that have passed a restore
    #[arg(long)]
    verified: bool,

    /// Copy at most this many bytes per second; 0 for no limit
    #[arg(long, value_name = "SIZE", default_value = "50M", value_parser = parse_size)]
    rate: u64,

    /// Print what would be copied, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Print one JSON object: {dataset, archive, created_with, dry_run, decisions}
    #[arg(long)]
    json: bool,
}

/// Runs the verb, and returns its exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let options = ArchiveOptions {
        archive: args.archive.clone(),
        settings: settings(&args.property)?,
        mountpoint: args.mountpoint.clone(),
        name: args.name.clone(),
        only_verified: args.verified,
        rate: Some(args.rate),
    };
    let prepared = ArchiveRun::prepare(&args.dataset, options)?;
    let report = if args.dry_run { prepared.report(true) } else { execute(prepared, args)? };
    match args.json {
        true => print_json(&report)?,
        false => print!("{}", backup_text::archive(&report)),
    }
    Ok(0)
}

fn execute(prepared: ArchiveRun, args: &Args) -> anyhow::Result<ArchiveReport> {
    let report = reported(args.json, |reporter| prepared.execute(reporter))?;
    if report.decisions.iter().any(|of| of.copied) {
        summary::keep(&args.archive);
    }
    Ok(report)
}
