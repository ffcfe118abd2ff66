//! `poolwright lab work`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use poolwright_host::kernel;
use poolwright_lab::run::{self, Executor, Options, RunProgress, Worked};
use poolwright_lab::{Campaign, RunTarget, store};

use crate::commands::options::{Usage, parse_time, this_program};
use crate::interrupt;
use crate::progress_line::ProgressLine;

/// Run one trial of a run on this machine: what `lab run --executor` starts on the nodes of a cluster
///
/// Takes a trial from the queue of the run, runs it, and saves it. If there is none for this node, it ends at once, with status 0. A trial
/// that fails is saved as failed; that is not an error of the worker.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The number of the run in the results
    #[arg(value_name = "RUN")]
    run: i64,

    /// The results: postgres://USER@HOST/DATABASE or a file
    #[arg(long, value_name = "FILE|URL")]
    results: String,

    /// The name of this machine in the cluster: trials of one block on different machines are not compared [default: the host name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Only trials of this study. May be repeated
    #[arg(long, value_name = "STUDY")]
    study: Vec<String>,

    /// Give up the trial if its claim cannot be renewed for so long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time)]
    lease: Duration,

    /// Parent of the scratch directory for pools, sockets and logs [default: TMPDIR]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Keep the scratch directory of the trial, with its logs and the files of its pool
    #[arg(long)]
    keep: bool,
}

/// Runs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    interrupt::watch_patiently()?;
    let mut store = store::open(&args.results)?;
    let found = store.runs()?.into_iter().find(|(id, _)| *id == args.run);
    let Some((id, run)) = found else {
        let location = store::shown(&args.results);
        return Err(anyhow!("{location} has no run {}", args.run).context(Usage));
    };
    let campaign = Campaign::parse_stored(Path::new(&format!("{}.toml", run.campaign)), &run.text)
        .with_context(|| format!("run {id}"))?;
    let node = match args.node {
        Some(node) => node,
        None => kernel::host_name(),
    };
    if node.is_empty() || !node.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
        return Err(anyhow!("--node {node:?}: use letters, digits, `.`, `-` and `_`").context(Usage));
    }
    let options = Options {
        assets: super::assets()?,
        program: this_program(),
        scale: run.scale.clone(),
        seed: run.seed,
        repeats: None,
        only: args.study,
        target: RunTarget::parse(&run.target).with_context(|| format!("the target of run {id}"))?,
        scratch: args.scratch.unwrap_or_else(std::env::temp_dir),
        keep: args.keep,
        results: args.results,
        lease: args.lease,
        executor: Executor::Local,
    };
    poolwright_host::private::make_dirs(&options.scratch)
        .with_context(|| format!("--scratch {}", options.scratch.display()))?;
    let line = ProgressLine::new("poolwright: ");
    let mut progress = RunProgress::new(&campaign.name, line.is_live());
    let mut watch = |event: run::Event<'_>| line.show(progress.updates(&event));
    let worked =
        run::work(&campaign, (id, &run), &options, &node, store.as_mut(), &interrupt::requested, &mut watch);
    line.end();
    match worked {
        Ok(Worked::Nothing) => println!("{node}: no trial to run"),
        Ok(Worked::Ended(trial)) => match &trial.outcome {
            Ok(outcome) => println!("{node}: {}, in {:.1} s", run::trial_name(&trial.key), outcome.seconds),
            Err(why) => println!("{node}: {}: failed: {why}", run::trial_name(&trial.key)),
        },
        Ok(Worked::Lost) => {
            println!("{node}: another worker has taken over the trial; its result was discarded")
        }
        Err(poolwright_lab::Error::Interrupted) => {
            eprintln!("poolwright: interrupted; the trial is in the queue again");
            return Ok(130);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(0)
}
