//! `poolwright lab`: experiments with real databases.

mod list;
pub mod progress;
mod report;
mod run;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use poolwright_lab::{Assets, Campaign};

use super::options::Usage;

/// Run experiments with real databases: campaigns of trials on datasets with known properties
///
/// A campaign is a file that says which database is driven, on which datasets, and what is varied. Each trial is a
/// process of its own on fresh datasets; the results are in one file, from which the report is made.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::Args),
    Run(run::Args),
    Report(report::Args),
}

/// Runs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    match args.verb {
        Verb::List(args) => list::run(args),
        Verb::Run(args) => run::run(args),
        Verb::Report(args) => report::run(args),
    }
}

fn assets() -> anyhow::Result<Assets> {
    Assets::find().map_err(|why| anyhow::anyhow!(why))
}

/// A campaign by its name or its file: itself, its text and where it is.
fn campaign(assets: &Assets, named: &str) -> anyhow::Result<(Campaign, String, PathBuf)> {
    let is_path = named.contains('/') || named.ends_with(".toml");
    let path = if is_path { PathBuf::from(named) } else { assets.campaigns().join(format!("{named}.toml")) };
    if !is_path && !path.exists() {
        let known: Vec<String> = assets.campaign_files().iter().map(|p| stem(p)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let why = format!(
            "there is no campaign {named:?} in {}; there is {known}; or name a file that ends with .toml",
            assets.campaigns().display()
        );
        return Err(anyhow::anyhow!(why).context(Usage));
    }
    let (campaign, text) = Campaign::load(&path).with_context(|| format!("the campaign {named}"))?;
    Ok((campaign, text, path))
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where the results of a campaign are if nothing else is said.
fn results(given: Option<String>, campaign: &str) -> String {
    given.unwrap_or_else(|| format!("lab-{campaign}.db"))
}
