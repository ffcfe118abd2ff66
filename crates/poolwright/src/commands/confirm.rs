//! `poolwright confirm`: tries a plan's settings with the database itself.

pub mod drive;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::builder::PossibleValuesParser;
use poolwright_base::{Exit, process, quoted};
use poolwright_confirm::{ConfirmationProgress, Error, Options, is_improvement};
use poolwright_lab::RunTarget;
use poolwright_openzfs::limits;
use poolwright_plan::{
    BesidePlan as _, Confirmation, ConfirmationCommands, Measurements, Plan, RiskyValues, Verification,
};
use poolwright_render::{plan_page, plan_text};

use super::options::{check_not_the_plan, parse_time};
use super::pool_trials::RunOnPool;
use crate::failure::hint;
use crate::output::{Force, Kind, Output};
use crate::progress_line::ProgressLine;
use crate::{interrupt, scratch};

/// Run the database under a plan's settings, and compare the results with the predictions
///
/// Copies the database to user-space pools, or with --on to datasets of the kernel's OpenZFS, with today's settings, the recommended
/// settings and the runner-up, in interleaved blocks, and runs your commands on each copy. Stop the database first; its files are read, not
/// changed. The commands run in a shell with POOLWRIGHT_DIR (the copy's directory), POOLWRIGHT_SETTING, POOLWRIGHT_BLOCK and
/// POOLWRIGHT_SCRATCH (an empty directory for sockets and logs). Exit code 4 means that no setting is better than today's, or that the
/// recommended settings do not meet a requirement of the plan.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan of `poolwright tune`
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Command that runs the load on the database. One run counts as one unit of work, or as N units if the command prints a line `work N`
    #[arg(long, value_name = "CMD")]
    load: String,

    /// Command that starts the database on $POOLWRIGHT_DIR and returns when it is ready. Requires --stop
    #[arg(long, value_name = "CMD", requires = "stop")]
    start: Option<String>,

    /// Command that stops the database
    #[arg(long, value_name = "CMD", requires = "start")]
    stop: Option<String>,

    /// A copy of the database's directory, if the database in the plan cannot be stopped
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Number of runs of each setting
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100))]
    blocks: u32,

    /// Time between the start of the database and the load
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    settle: Option<Duration>,

    /// Time limit of each command
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    limit: Duration,

    #[command(flatten)]
    kernel: RunOnPool,

    /// How much of the mounted files the kernel caches: through (nothing; only the ARC caches, as with ZFS in the kernel), pages, or
    /// writeback (for databases that map their files for writing)
    #[arg(long, value_name = "MODE", default_value = "through", value_parser = PossibleValuesParser::new(CACHING), conflicts_with = "on")]
    caching: String,

    /// Directory for scratch files. Default: /dev/shm if it has enough room, otherwise TMPDIR
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Write the confirmation to this file. Default: `plan.confirmation.json` for `plan.json`, in the same directory, where `apply` and
    /// `verify` read it
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the report to this file, one self-contained HTML page
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,

    #[command(flatten)]
    force: Force,

    /// Print the confirmation as JSON on standard output
    #[arg(long)]
    json: bool,
}

const CACHING: [&str; 3] = ["through", "pages", "writeback"];

/// Runs the verb, and returns its exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    // A trial that is asked to end has a time limit. If this process ended first, nothing would remove the trial's files.
    interrupt::watch_patiently()?;
    let plan = Plan::read(&args.plan, RiskyValues::Read).map_err(Error::from)?;
    let options = options(&args, &plan)?;
    let verification = Verification::beside(&args.plan, &plan).map_err(Error::from)?;
    let into = args.output.clone().unwrap_or_else(|| Confirmation::path_beside(&args.plan));
    check_not_the_plan(&args.plan, [args.output.as_deref(), Some(&args.report)])?;
    // Opened before the long run, so that a path that cannot be written fails now.
    let (output, report) =
        Output::open_both((&into, Kind::Confirmation), (&args.report, Kind::Page), args.force)?;
    let line = ProgressLine::new("");
    let mut progress = ConfirmationProgress::new(line.is_live());
    let ran = poolwright_confirm::run(&plan, &options, &interrupt::requested, &mut |event| {
        line.show(vec![progress.update(&event)]);
    });
    line.end();
    let confirmation = match ran {
        Ok(confirmation) => confirmation,
        Err(Error::Interrupted) => {
            eprintln!(
                "poolwright: interrupted before the confirmation was complete: {} was not written",
                into.display()
            );
            return Ok(Exit::Interrupted.code());
        }
        Err(error) => return Err(error.into()),
    };
    let code = if is_improvement(&confirmation) { 0 } else { Exit::NothingToChange.code() };
    output.write(&(serde_json::to_string_pretty(&confirmation)? + "\n"))?;
    let measured = Measurements { confirmation: Some(confirmation), verification };
    report.write(&plan_page::html(&plan, &measured))?;
    let confirmation = measured.confirmation.as_ref().expect("it was measured");
    if args.json {
        println!("{}", serde_json::to_string(confirmation)?);
    } else {
        print!("{}", plan_text::confirmation(&plan, confirmation, crate::stdout::terminal()));
        println!("\nWritten: {} and {}.", into.display(), args.report.display());
    }
    Ok(code)
}

fn options(args: &Args, plan: &Plan) -> anyhow::Result<Options> {
    if plan.is_of_volume() {
        bail!("cannot confirm the plan of a volume: the trials run copies of a database's directory");
    }
    let dir = args.dir.as_deref().unwrap_or(Path::new(&plan.subject.directory));
    let dir = dir
        .canonicalize()
        .with_context(|| format!("cannot open the database's directory {}", quoted(&dir)))
        .context(hint("name the database's directory, or a copy of it, with --dir"))?;
    if !dir.is_dir() {
        bail!("{} is not a directory", quoted(&dir));
    }
    Ok(Options {
        commands: ConfirmationCommands {
            start: args.start.clone(),
            load: args.load.clone(),
            stop: args.stop.clone(),
        },
        working_dir: std::env::current_dir().context("cannot determine the working directory")?,
        blocks: args.blocks,
        settle: args.settle.unwrap_or_default(),
        limit: args.limit,
        target: args.kernel.target()?.unwrap_or(RunTarget::Pool),
        caching: args.caching.clone(),
        dirty_bytes: limits::default_dirty_bytes(),
        program: process::own_executable_for_others(),
        driver: vec![drive::VERB.to_owned()],
        scratch: match &args.scratch {
            Some(dir) if !dir.is_dir() => bail!("--scratch {}: no such directory", quoted(&dir)),
            Some(dir) => dir.clone(),
            // The copies are on the kernel's pool.
            None if args.kernel.on.is_some() => std::env::temp_dir(),
            None => scratch::choose(poolwright_confirm::memory_bytes(plan, &dir)?),
        },
        dir,
    })
}
