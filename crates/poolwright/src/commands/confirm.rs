//! `poolwright confirm`: a plan's settings, tried with the database itself.

pub mod drive;
mod progress;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::builder::PossibleValuesParser;
use poolwright_lab::confirm::{self, Options, Tree};
use poolwright_render::{plan_page, plan_text};
use poolwright_tune::plan::{Confirmation, ConfirmationCommands, ConfirmedSetting, FORMAT, Plan, VERSION};

use super::options::{self, Usage, parse_time};
use crate::failure::{NOTHING_BETTER, Refused, hint};
use crate::output::{Force, Kind, Output};
use crate::stdout::Stdout;
use crate::{interrupt, scratch};
use progress::Shown;

/// Try a plan's settings with the database itself, and put the outcome beside the prediction
///
/// Copies the database onto pools in user space with today's settings, the recommended ones and the runner-up, in
/// interleaved blocks, and runs your commands on each copy. The database has to be stopped; its files are only read. The
/// commands run in a shell with POOLWRIGHT_DIR (the copy's directory), POOLWRIGHT_SETTING, POOLWRIGHT_BLOCK and
/// POOLWRIGHT_SCRATCH (an empty directory for sockets and logs). Exit code 4 means: no setting is better than today's, or
/// the recommended ones miss a requirement of the plan.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan of `poolwright tune`; the outcome is added to it
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Command that puts the load on the database. Its unit of work is one run, or N if it prints a line `work N`
    #[arg(long, value_name = "CMD")]
    load: String,

    /// Command that starts the database on $POOLWRIGHT_DIR, and returns when it is ready
    #[arg(long, value_name = "CMD", requires = "stop")]
    start: Option<String>,

    /// Command that stops the database
    #[arg(long, value_name = "CMD", requires = "start")]
    stop: Option<String>,

    /// A copy of the database's directory, if the one in the plan cannot be stopped
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// How often each setting is run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100))]
    blocks: u32,

    /// How long the database settles between its start and the load
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    settle: Option<Duration>,

    /// The longest that a command may take
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    limit: Duration,

    /// What the kernel may keep of the mounted files: through (nothing, as on a kernel's ZFS with the ARC alone), pages or
    /// writeback (for databases that map their files for writing)
    #[arg(long, value_name = "MODE", default_value = "through", value_parser = PossibleValuesParser::new(CACHING))]
    caching: String,

    /// Directory for scratch files. Left out, memory (/dev/shm) if it has the room, else TMPDIR
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Write the plan here. Left out, in place of PLAN, which is kept as PLAN.1
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the report here, one self-contained HTML file
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,

    #[command(flatten)]
    force: Force,

    /// Print the plan as JSON on standard output
    #[arg(long)]
    json: bool,
}

const CACHING: [&str; 3] = ["through", "pages", "writeback"];

/// Confirms; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    // A trial asked to end is given a limited time; without this process, nothing would remove what it leaves.
    interrupt::watch_patiently()?;
    let mut plan = read(&args.plan)?;
    let options = options(&args, &plan)?;
    let into = args.output.as_deref().unwrap_or(&args.plan);
    // Opened before the long run: a place that cannot be written shows now.
    let (output, report) = Output::open_both((into, Kind::Plan), (&args.report, Kind::Page), args.force)?;
    let mut shown = Shown::new();
    let ran = confirm::run(&plan, &options, &interrupt::requested, &mut |event| shown.event(event));
    shown.end();
    let confirmation = match ran {
        Ok(confirmation) => confirmation,
        Err(poolwright_lab::Error::Interrupted) => {
            eprintln!(
                "poolwright: interrupted: nothing was measured to the end, {} is as it was before",
                into.display()
            );
            return Ok(130);
        }
        Err(error) => return Err(marked(error)),
    };
    let code = exit_code(&confirmation);
    plan.confirmation = Some(confirmation);
    output.write(&(serde_json::to_string_pretty(&plan)? + "\n"))?;
    report.write(&plan_page::html(&plan))?;
    if args.json {
        println!("{}", serde_json::to_string(&plan)?);
    } else {
        plan_text::print_confirmation(&plan, &mut Stdout, crate::stdout::terminal())?;
        println!("\nWritten: {} and {}.", into.display(), args.report.display());
    }
    Ok(code)
}

/// Reads a plan that can be followed.
fn read(path: &Path) -> anyhow::Result<Plan> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let not_one = || format!("{} is not a plan of `poolwright tune`", path.display());
    let value: serde_json::Value = serde_json::from_slice(&text).with_context(not_one).context(Usage)?;
    if value["format"] != FORMAT {
        return Err(anyhow!("its format is {}, not {FORMAT:?}", value["format"]))
            .with_context(not_one)
            .context(Usage);
    }
    if value["version"].as_u64().is_none_or(|version| version > VERSION.into()) {
        bail!(
            "{} has format version {}, and this release reads {VERSION}\nhint: use the release that wrote it ({})",
            path.display(),
            value["version"],
            value["creator"]
        );
    }
    let plan: Plan = serde_json::from_value(value).with_context(not_one).context(Usage)?;
    let problems = plan.problems();
    if !problems.is_empty() {
        return Err(anyhow!("{} must not be followed: {}", path.display(), problems.join("; ")))
            .context(Refused);
    }
    Ok(plan)
}

fn options(args: &Args, plan: &Plan) -> anyhow::Result<Options> {
    let named = args.dir.as_deref().unwrap_or(Path::new(&plan.subject.directory));
    let dir = named
        .canonicalize()
        .with_context(|| format!("looking at the database's directory {}", named.display()))
        .context(hint("--dir names a copy of it"))?;
    if !dir.is_dir() {
        bail!("{} is not a directory", dir.display());
    }
    let arc = plan.machine.arc_bytes.unwrap_or(0);
    let needed = confirm::room(Tree::look(&dir)?.bytes);
    Ok(Options {
        commands: ConfirmationCommands {
            start: args.start.clone(),
            load: args.load.clone(),
            stop: args.stop.clone(),
        },
        working_dir: std::env::current_dir().context("looking at the working directory")?,
        blocks: args.blocks,
        settle: args.settle.unwrap_or_default(),
        limit: args.limit,
        caching: args.caching.clone(),
        dirty_bytes: options::dirty_bytes(),
        // By this name any process can start it, also after a new build.
        program: PathBuf::from(format!("/proc/{}/exe", std::process::id())),
        driver: vec![drive::VERB.to_owned()],
        scratch: match &args.scratch {
            Some(dir) if !dir.is_dir() => bail!("--scratch {}: there is no such directory", dir.display()),
            Some(dir) => dir.clone(),
            None => scratch::choose(needed + arc / 2),
        },
        dir,
    })
}

/// With the exit code that belongs to it.
fn marked(error: poolwright_lab::Error) -> anyhow::Error {
    use poolwright_lab::Error;
    match error {
        Error::InUse { .. } | Error::Unsafe { .. } => anyhow::Error::from(error).context(Refused),
        Error::Usage(_) => anyhow::Error::from(error).context(Usage),
        other => other.into(),
    }
}

/// 4 where no setting that meets the requirements is better than today's beyond noise, or the recommended one misses a
/// requirement.
fn exit_code(confirmation: &Confirmation) -> u8 {
    let any = confirmation.settings.iter().any(ConfirmedSetting::is_acceptable);
    if any && confirmation.missed.is_empty() { 0 } else { NOTHING_BETTER }
}
