//! `poolwright lab run`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use poolwright_lab::campaign::SMALL;
use poolwright_lab::json_output::RunSummary;
use poolwright_lab::run::{self, Options, Summary};
use poolwright_lab::{Campaign, store};
use poolwright_trace::counted;

use super::progress::{Shown, human_duration, spelled};
use crate::commands::options::{Usage, this_program};
use crate::interrupt;

/// Run a campaign: all of its trials that are not in the results yet
///
/// After an interruption, a crash or a failed trial the same command goes on where it was. The results are for
/// `lab report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A shipped campaign by its name (see `lab list`), or a file that ends with .toml
    #[arg(value_name = "CAMPAIGN")]
    campaign: String,

    /// How much of it: a scale of the campaign
    #[arg(long, value_name = "SCALE", default_value = SMALL)]
    scale: String,

    /// Seed of the order and of the workloads' data
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: u64,

    /// How often each case is run. Left out: what its study says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,

    /// Only these studies
    #[arg(long, value_name = "STUDY,…", value_delimiter = ',')]
    only: Vec<String>,

    /// What the datasets are on: pool (the engine in user space) or directory:PATH (the host's file system, as it is)
    #[arg(long, value_name = "TARGET", default_value = "pool", value_parser = parse_target)]
    target: Target,

    /// Where results are kept: a file, or postgres://USER@HOST/DATABASE. Left out: lab-CAMPAIGN.db here
    #[arg(long, value_name = "FILE|URL")]
    results: Option<String>,

    /// Where pools, sockets and logs are, in a folder that is removed again. Left out: TMPDIR
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Keep the folder of every trial: its logs, and what is left of its pool
    #[arg(long)]
    keep: bool,

    /// Print one JSON object on standard output at the end
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
enum Target {
    Pool,
    Directory(PathBuf),
}

fn parse_target(text: &str) -> Result<Target, String> {
    match text.split_once(':') {
        None if text == "pool" => Ok(Target::Pool),
        Some(("directory", path)) => {
            let found = Path::new(path).canonicalize().map_err(|why| format!("{path}: {why}"))?;
            if found.is_dir() {
                Ok(Target::Directory(found))
            } else {
                Err(format!("{path} is not a directory"))
            }
        }
        _ => Err("write pool or directory:PATH".into()),
    }
}

/// Runs; the value is the exit code: 1 if a trial failed.
pub fn run(args: Args) -> anyhow::Result<u8> {
    // A trial asked to end is given a limited time; without this process, nothing would remove what it leaves.
    interrupt::watch_patiently()?;
    let assets = super::assets()?;
    let (campaign, text, _) = super::campaign(&assets, &args.campaign)?;
    if !campaign.scale.contains_key(&args.scale) {
        let known: Vec<&str> = campaign.scale.keys().map(String::as_str).collect();
        let why = format!("{} has no scale {:?}; it has {}", campaign.name, args.scale, known.join(", "));
        return Err(anyhow::anyhow!(why).context(Usage));
    }
    let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    if !scratch.is_dir() {
        bail!("--scratch {}: there is no such directory", scratch.display());
    }
    let options = Options {
        assets,
        program: this_program(),
        scale: args.scale.clone(),
        seed: args.seed,
        repeats: args.repeats,
        only: args.only.clone(),
        directory: match &args.target {
            Target::Pool => None,
            Target::Directory(dir) => Some(dir.clone()),
        },
        scratch,
        keep: args.keep,
    };
    if let Err(error) = run::chosen(&campaign, &options) {
        return Err(anyhow::Error::new(error).context(Usage));
    }
    let place = super::results(args.results.clone(), &campaign.name);
    let mut store = store::open(&place)?;
    let place = store::shown(&place);
    let mut shown = Shown::new(&campaign.name);
    let mut watch = |event: run::Event<'_>| shown.event(event);
    let ran = run::run(&campaign, &text, &options, store.as_mut(), &interrupt::requested, &mut watch);
    shown.end();
    let summary = ran.with_context(|| format!("running {}", campaign.name))?;
    if args.json {
        println!("{}", serde_json::to_string(&RunSummary::new(&campaign.name, &place, &summary))?);
    } else {
        print_summary(&campaign, &place, &summary);
    }
    if summary.interrupted {
        eprintln!(
            "poolwright: interrupted; the running trial was discarded, all others are kept. The same command goes on"
        );
        return Ok(130);
    }
    Ok(u8::from(!summary.failed.is_empty()))
}

fn print_summary(campaign: &Campaign, place: &str, summary: &Summary) {
    println!(
        "{}: {} done in {}, {} there before, {} failed; run {} in {place}",
        campaign.name,
        counted(summary.done as u64, "trial"),
        human_duration(Duration::from_secs_f64(summary.seconds)),
        summary.skipped,
        summary.failed.len(),
        summary.run
    );
    for (key, why) in &summary.failed {
        println!("  failed: {}: {why}", spelled(key));
    }
    if !summary.interrupted {
        println!("The report: poolwright lab report {} --results {place}", campaign.name);
    }
}
