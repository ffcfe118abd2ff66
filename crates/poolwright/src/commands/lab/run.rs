//! `poolwright lab run`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use poolwright_base::{Exit, quoted};
use poolwright_lab::json_output::RunSummary;
use poolwright_lab::run::{self, Options, RunProgress, Summary};
use poolwright_lab::{Campaign, RunTarget, Store};

use super::options::{RunArgs, parse_target};
use crate::commands::options::parse_time;
use crate::commands::pool_trials::RunOnPool;
use crate::interrupt;
use crate::progress_line::ProgressLine;

/// Run the trials of a campaign that are not yet in the results
///
/// After an interruption, a crash or a failed trial, run the same command again to continue. `lab report` makes a report of the results.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,

    /// Storage of the datasets: pool (the engine in user space) or directory:PATH (the host's file system, unchanged)
    #[arg(long, value_name = "TARGET", default_value = "pool", value_parser = parse_target, conflicts_with = "on")]
    target: RunTarget,

    #[command(flatten)]
    kernel: RunOnPool,

    /// Begin no trial after this time, such as 30m or 6h; the same command continues the run [default: until all trials are done]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    limit: Option<Duration>,

    /// Parent of the scratch directory for pools, sockets and logs [default: TMPDIR]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Keep the scratch directory of every trial, with its logs and the files of its pool
    #[arg(long)]
    keep: bool,

    /// Print one JSON object on standard output at the end
    #[arg(long)]
    json: bool,
}

/// Runs; the value is the exit code: 1 if a trial failed.
pub fn run(args: Args) -> anyhow::Result<u8> {
    // A trial that is asked to end has a time limit. If this process ended first, nothing would remove the trial's files.
    interrupt::watch_patiently()?;
    let assets = super::assets()?;
    let (campaign, text) = super::campaign(&assets, &args.run.campaign)?;
    let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let location = super::results(args.run.results.as_deref(), &campaign.name);
    if !scratch.is_dir() {
        bail!("--scratch {}: no such directory", quoted(&scratch));
    }
    let target = args.kernel.target()?.unwrap_or_else(|| args.target.clone());
    let options = Options { limit: args.limit, ..args.run.options(assets, target, &scratch, args.keep) };
    run::chosen(&campaign, &options)?;
    let mut store = Store::open(&location)?;
    let location = location.display().to_string();
    let summary = run_shown(&campaign, &text, &options, &mut store)?;
    if args.json {
        println!("{}", serde_json::to_string(&RunSummary::new(&campaign.name, &location, &summary))?);
    } else {
        print!("{}", summary.text(&campaign.name, &location));
        if !summary.interrupted {
            println!("The report: poolwright lab report {} --results {location}", campaign.name);
        }
    }
    if summary.interrupted {
        eprintln!(
            "poolwright: interrupted; running trials were discarded; all others are kept. Run the same command again to continue"
        );
        return Ok(Exit::Interrupted.code());
    }
    Ok(u8::from(!summary.failed.is_empty()))
}

/// Runs the campaign and shows the progress.
fn run_shown(
    campaign: &Campaign,
    text: &str,
    options: &Options,
    store: &mut Store,
) -> anyhow::Result<Summary> {
    let line = ProgressLine::new("poolwright: ");
    let mut progress = RunProgress::new(&campaign.name, line.is_live());
    let mut watch = |event: run::Event<'_>| line.show(progress.updates(&event));
    let ran = run::run(campaign, text, options, store, &interrupt::requested, &mut watch);
    line.end();
    ran.with_context(|| format!("running {}", campaign.name))
}
