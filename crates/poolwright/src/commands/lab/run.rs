//! `poolwright lab run`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use poolwright_host::quoted;
use poolwright_lab::campaign::SMALL;
use poolwright_lab::json_output::RunSummary;
use poolwright_lab::run::{self, Options, RunProgress, Summary};
use poolwright_lab::{Campaign, RunTarget, Store, store};

use super::executor::ExecutorOptions;
use crate::commands::options::{Usage, this_program};
use crate::commands::pool_trials::RunOnPool;
use crate::interrupt;
use crate::progress_line::ProgressLine;

/// Run a campaign: all of its trials that are not in the results yet
///
/// After an interruption, a crash or a failed trial, the same command continues the run. `lab report` makes a report of the
/// results.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A shipped campaign by its name (see `lab list`), or a file that ends with .toml
    #[arg(value_name = "CAMPAIGN")]
    campaign: String,

    /// A scale of the campaign, which determines the sizes and the number of its trials
    #[arg(long, value_name = "SCALE", default_value = SMALL)]
    scale: String,

    /// Seed of the order of the trials and of the workloads' data
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: u64,

    /// Number of trials of each case [default: that of its study]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,

    /// Only these studies
    #[arg(long, value_name = "STUDY,…", value_delimiter = ',')]
    only: Vec<String>,

    #[command(flatten)]
    cluster: ExecutorOptions,

    /// Storage of the datasets: pool (the engine in user space) or directory:PATH (the host's file system, unchanged)
    #[arg(long, value_name = "TARGET", default_value = "pool", value_parser = parse_target, conflicts_with = "on")]
    target: RunTarget,

    #[command(flatten)]
    kernel: RunOnPool,

    /// The results: a file, or postgres://USER@HOST/DATABASE [default: lab-CAMPAIGN.db]
    #[arg(long, value_name = "FILE|URL")]
    results: Option<String>,

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

fn parse_target(text: &str) -> Result<RunTarget, String> {
    match text.split_once(':') {
        None if text == "pool" => Ok(RunTarget::Pool),
        Some(("directory", path)) => {
            let found = Path::new(path).canonicalize().map_err(|why| format!("{path}: {why}"))?;
            if found.is_dir() {
                Ok(RunTarget::Directory(found))
            } else {
                Err(format!("{path} is not a directory"))
            }
        }
        _ => Err("write pool or directory:PATH".into()),
    }
}

/// Runs; the value is the exit code: 1 if a trial failed.
pub fn run(args: Args) -> anyhow::Result<u8> {
    // A trial that is asked to end has a time limit. If this process ended first, nothing would remove the trial's files.
    interrupt::watch_patiently()?;
    let assets = super::assets()?;
    let (campaign, text) = super::campaign(&assets, &args.campaign)?;
    let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let location = super::results(args.results.clone(), &campaign.name);
    let executor = args.cluster.executor(&campaign.name, &location, args.scratch.as_ref())?;
    if args.cluster.is_local() && !scratch.is_dir() {
        bail!("--scratch {}: there is no such directory", quoted(&scratch));
    }
    let options = Options {
        assets,
        program: this_program(),
        scale: args.scale.clone(),
        seed: args.seed,
        repeats: args.repeats,
        only: args.only.clone(),
        target: args.kernel.target()?.unwrap_or_else(|| args.target.clone()),
        scratch,
        keep: args.keep,
        results: location.clone(),
        lease: args.cluster.lease(),
        executor,
    };
    if let Err(error) = run::chosen(&campaign, &options) {
        return Err(anyhow::Error::new(error).context(Usage));
    }
    let mut store = store::open(&location)?;
    if args.cluster.print_job {
        print!("{}", run::job(&campaign, &text, &options, store.as_mut())?);
        return Ok(0);
    }
    let location = store::shown(&location);
    let summary = run_shown(&campaign, &text, &options, store.as_mut())?;
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
            "poolwright: interrupted; running trials were discarded, and all others are kept. The same command continues the run"
        );
        return Ok(130);
    }
    Ok(u8::from(!summary.failed.is_empty()))
}

/// Runs the campaign and shows the progress.
fn run_shown(
    campaign: &Campaign,
    text: &str,
    options: &Options,
    store: &mut dyn Store,
) -> anyhow::Result<Summary> {
    let line = ProgressLine::new("poolwright: ");
    let mut progress = RunProgress::new(&campaign.name, line.is_live());
    let mut watch = |event: run::Event<'_>| line.show(progress.updates(&event));
    let ran = run::run(campaign, text, options, store, &interrupt::requested, &mut watch);
    line.end();
    ran.with_context(|| format!("running {}", campaign.name))
}
