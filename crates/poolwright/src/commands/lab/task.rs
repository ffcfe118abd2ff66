//! `poolwright lab task`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use poolwright_base::{Exit, kernel, private, quoted};
use poolwright_lab::run::{self, Options, RanTask, RunProgress, SharedDir};
use poolwright_lab::{Campaign, Error, RunTarget};

use crate::commands::options::{Usage, this_program};
use crate::failure::hint;
use crate::interrupt;
use crate::progress_line::ProgressLine;

/// Run a task of `lab share` on this node
///
/// Runs the trials of the task that have no result, and writes their results to the shared directory. If the task has ended, it does
/// nothing; if another node runs it, it waits until that node has finished or is lost. A failed trial is a result: the exit code is 0.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The number of the task, from 0
    #[arg(value_name = "NUMBER")]
    task: usize,

    /// The directory of `lab share`
    #[arg(long, value_name = "DIR")]
    shared: PathBuf,

    /// The name of this machine in the cluster: trials of one block on different machines are not compared [default: the host name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Parent of the scratch directory for pools, sockets and logs; it is created [default: TMPDIR]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Keep the scratch directory of every trial, with its logs and the files of its pool
    #[arg(long)]
    keep: bool,
}

/// Runs the verb, and returns its exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    interrupt::watch_patiently()?;
    let none = || anyhow!("{} has no run", quoted(&args.shared)).context(hint("`lab share` prepares one"));
    let dir = SharedDir::open(&args.shared)?.ok_or_else(none)?;
    let shared = &dir.shared;
    let campaign =
        Campaign::parse_stored(Path::new(&format!("{}.toml", shared.run.campaign)), &shared.run.text)
            .with_context(|| format!("the campaign in {}", quoted(&args.shared)))?;
    let node = args.node.unwrap_or_else(kernel::host_name);
    if node.is_empty() || !node.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
        return Err(anyhow!("--node {node:?}: use letters, digits, `.`, `-` and `_`").context(Usage));
    }
    let options = Options {
        assets: super::assets()?,
        program: this_program(),
        scale: shared.run.scale.clone(),
        seed: shared.run.seed,
        repeats: None,
        limit: None,
        only: shared.only.clone(),
        target: RunTarget::parse(&shared.run.target)?,
        scratch: args.scratch.unwrap_or_else(std::env::temp_dir),
        keep: args.keep,
    };
    private::make_dirs(&options.scratch)
        .with_context(|| format!("--scratch {}", options.scratch.display()))?;
    let line = ProgressLine::new("poolwright: ");
    let mut progress = RunProgress::new(&campaign.name, line.is_live());
    let mut watch = |event: run::Event<'_>| line.show(progress.updates(&event));
    let ran = run::run_task(&campaign, &dir, args.task, &options, &node, &interrupt::requested, &mut watch);
    line.end();
    match ran {
        Ok(RanTask::Nothing) => println!("{node}: task {} has already ended", args.task),
        Ok(RanTask::Ended(trials)) => println!("{node}: task {}: {} trials", args.task, trials.len()),
        Ok(RanTask::Lost) => println!("{node}: another node has taken over task {}", args.task),
        Err(Error::Interrupted) => {
            eprintln!("poolwright: interrupted; the task is in the queue again");
            return Ok(Exit::Interrupted.code());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(0)
}
