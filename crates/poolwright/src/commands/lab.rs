//! `poolwright lab`: experiments with real databases.

mod list;
mod options;
mod report;
mod run;
mod share;
mod task;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use poolwright_lab::{Assets, Campaign, Error};

/// Run experiments with real databases: campaigns of trials on datasets with known properties
///
/// A campaign is a file that names the database to run, its datasets, and the properties to vary. Each trial runs in its own
/// process on new datasets. The results are stored in one file, from which `lab report` makes the report.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::Args),
    Run(Box<run::Args>),
    Share(Box<share::Args>),
    Task(task::Args),
    Report(report::Args),
}

/// Runs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    match args.verb {
        Verb::List(args) => list::run(args),
        Verb::Run(args) => run::run(*args),
        Verb::Share(args) => share::run(*args),
        Verb::Task(args) => task::run(args),
        Verb::Report(args) => report::run(args),
    }
}

fn assets() -> anyhow::Result<Assets> {
    Assets::find().map_err(|why| anyhow::anyhow!(why))
}

/// Reads the campaign of this name or file, and returns it with its text.
fn campaign(assets: &Assets, named: &str) -> anyhow::Result<(Campaign, String)> {
    Campaign::find(assets, named).map_err(|error| match error {
        Error::Usage(_) => error.into(),
        other => anyhow::Error::from(other).context(format!("the campaign {named}")),
    })
}

/// The file of a campaign's results; by default in the working directory.
fn results(given: Option<&Path>, campaign: &str) -> PathBuf {
    given.map_or_else(|| PathBuf::from(format!("lab-{campaign}.db")), Path::to_owned)
}
