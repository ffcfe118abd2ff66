//! `poolwright lab run`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use poolwright_host::quoted;
use poolwright_lab::campaign::SMALL;
use poolwright_lab::json_output::RunSummary;
use poolwright_lab::run::{self, Options, RunProgress, Summary};
use poolwright_lab::{Campaign, RunTarget, Store, store};
use poolwright_replay::KernelPoolOptions;

use super::executor::ExecutorOptions;
use crate::commands::options::{Usage, parse_size, parse_time, this_program};
use crate::commands::pool_trials;
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
    #[arg(long, value_name = "TARGET", default_value = "pool", value_parser = parse_target)]
    target: RunTarget,

    #[command(flatten)]
    kernel: KernelOptions,

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

/// Trials on a pool of the kernel
#[derive(Debug, clap::Args)]
struct KernelOptions {
    /// Run the trials below this dataset of the kernel's OpenZFS, on the vdevs of its pool. Each trial creates datasets and destroys them.
    /// Requires root. Not for a pool whose users cannot bear the load
    #[arg(long, value_name = "DATASET", conflicts_with_all = ["target", "executor"])]
    on: Option<String>,

    /// With --on: start no further trial when the pool's devices have written this much during the trials
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = parse_size, requires = "on")]
    max_bytes: u64,

    /// With --on: stop if half of the pool's device I/O takes longer than this for 3 s while others use the pool
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_time, requires = "on")]
    max_io_time: Duration,
}

impl KernelOptions {
    /// Examines the pool of `--on`; `None` without the option.
    fn target(&self) -> anyhow::Result<Option<RunTarget>> {
        let Some(dataset) = &self.on else { return Ok(None) };
        let available = pool_trials::available(dataset)?;
        Ok(Some(RunTarget::Dataset {
            options: KernelPoolOptions {
                parent: dataset.clone(),
                mount_dir: PathBuf::new(),
                properties: pool_trials::properties(),
                quota: 0,
                fill_rate: None,
                latency_limit_ns: self.max_io_time.as_nanos() as u64,
            },
            max_bytes: self.max_bytes,
            available,
        }))
    }
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
