//! `poolwright verify`: compares measured with predicted changes on the live database.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use poolwright_base::{Exit, quoted};
use poolwright_plan::{
    BesidePlan as _, LiveMeasurement, Measurements, Plan, RiskyValues, Verdict, Verification,
    VerificationVerdict,
};
use poolwright_render::{plan_page, plan_text};
use poolwright_verify::state::PlanMounts;
use poolwright_verify::{Error, Options, PlanState, check, from_recording, measure, not_applied};

use super::options::{Usage, check_not_the_plan, parse_time};
use super::pool_connection::print_json;
use super::record::{bar, show};
use crate::failure::hint;
use crate::output::{Force, Kind, Output};
use crate::{interrupt, scratch};

/// The shortest recording: each of its blocks must hold some operations.
const SHORTEST: Duration = Duration::from_secs(10);

/// Compare the measured changes of an applied plan with the predicted ones, on the live database
///
/// Records the database under its own load, and compares work rate, latencies, space and bytes written with the state before the
/// plan, metric by metric, with 95 % intervals. Run the command before the plan is applied to measure the state before. Otherwise, the
/// recording that `tune` made is used instead, if it was kept (`tune --keep-trace`), but it has no bytes written. The outcome is written to
/// a file in the plan's directory and, with --report, to a page. Changes nothing else. Exit code 1 means that a figure of the plan's goal
/// lacks its predicted improvement, or is worse than predicted.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan of `poolwright tune`
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// How long to record, in ten blocks. Record at the same time of day as before the plan was applied
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    duration: Duration,

    /// Command that prints one number: how much work the application has done so far, such as a count of transactions. The command is
    /// stored in the verification. By default, the work is the number of file operations of the threads that do the work
    #[arg(long, value_name = "CMD")]
    work: Option<String>,

    /// Recording of the state before the plan was applied
    #[arg(long, value_name = "TRACE")]
    before: Option<PathBuf>,

    /// Directory for the recording. Default: /dev/shm if it has enough room, otherwise TMPDIR
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Keep the recording in this file
    #[arg(long, value_name = "FILE")]
    keep_trace: Option<PathBuf>,

    /// Write the verification to this file. Default: `plan.verification.json` for `plan.json`, in the same directory, where `serve` and the
    /// next `verify` read it
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Also write the report of the plan to this file, one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    #[command(flatten)]
    force: Force,

    /// Print the verification as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// An upper estimate of a busy database's events per second, and of their bytes in a trace, for the choice of the directory.
const EVENTS_S: f64 = 50_000.0;
const BYTES_PER_EVENT: f64 = 12.0;

fn parse_duration(text: &str) -> Result<Duration, String> {
    let time = parse_time(text).map_err(|why| why.to_string())?;
    if time >= SHORTEST { Ok(time) } else { Err(format!("record for {} s or more", SHORTEST.as_secs())) }
}

/// Runs the verb, and returns its exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let plan = Plan::read(&args.plan, RiskyValues::Read).map_err(poolwright_apply::Error::from)?;
    if plan.verdict == Verdict::Keep {
        eprintln!("poolwright: the plan recommends no change: {}", plan.why);
        return Ok(Exit::NothingToChange.code());
    }
    if plan.is_of_volume() {
        bail!("cannot verify the plan of a volume: only plans of a directory are compared with the database");
    }
    if let Some(why) = plan.other_database(Path::new(&plan.subject.directory)) {
        return Err(Error::OtherDatabase(why).into());
    }
    check_not_the_plan(&args.plan, [args.output.as_deref(), args.report.as_deref()])?;
    // Opened before the recording, so that a path that cannot be written fails now.
    let measured = Measurements::beside(&args.plan, &plan).map_err(poolwright_apply::Error::from)?;
    let into = args.output.clone().unwrap_or_else(|| Verification::path_beside(&args.plan));
    let (output, report) = match &args.report {
        Some(page) => {
            let (file, page) =
                Output::open_both((&into, Kind::Verification), (page, Kind::Page), args.force)?;
            (file, Some(page))
        }
        None => (Output::open(&into, Kind::Verification, args.force)?, None),
    };
    let state = PlanMounts::read().and_then(|mounts| mounts.state(&plan))?;
    let before = before(args, &plan, measured.verification.as_ref(), &state)?;
    let now = record(args, &plan)?;
    check_unchanged(args, &plan, &state)?;
    let found = match state {
        PlanState::NotApplied => not_applied(&plan, now),
        PlanState::Applied { is_complete, differences } => {
            check(&plan, measured.confirmation.as_ref(), before, now, is_complete, differences)
        }
    };
    let is_broken = found.verdict == VerificationVerdict::Broken;
    output.write(&(serde_json::to_string_pretty(&found)? + "\n"))?;
    print(args, &found)?;
    if let Some(report) = report {
        let measured = Measurements { verification: Some(found), ..measured };
        report.write(&plan_page::html(&plan, &measured))?;
    }
    Ok(if is_broken { Exit::Failed.code() } else { 0 })
}

/// The state before the plan was applied: the recording that the user names, that of an earlier verification, or the plan's recording.
fn before(
    args: &Args,
    plan: &Plan,
    earlier: Option<&Verification>,
    state: &PlanState,
) -> anyhow::Result<Option<LiveMeasurement>> {
    let measured = earlier.and_then(|of| of.before.clone());
    match (state, &args.before) {
        (PlanState::NotApplied, Some(_)) => bail!(
            anyhow::anyhow!("the plan is not applied: this run measures the state before")
                .context(Usage)
                .context(hint("leave out --before"))
        ),
        (PlanState::NotApplied, None) => Ok(None),
        (PlanState::Applied { .. }, None) if measured.is_some() => Ok(measured),
        (PlanState::Applied { .. }, named) => Ok(from_recording(plan, named.as_deref())?),
    }
}

/// Checks that the plan and the state of its datasets are those from before the recording.
fn check_unchanged(args: &Args, plan: &Plan, state: &PlanState) -> anyhow::Result<()> {
    let now = Plan::read(&args.plan, RiskyValues::Read).map_err(poolwright_apply::Error::from)?;
    let changed = match () {
        () if now.id() != plan.id() => "another plan was written to the file",
        () if PlanMounts::read()?.state(&now)? != *state => {
            "the settings of the datasets or the files changed"
        }
        () => return Ok(()),
    };
    Err(Error::Changed(changed.to_owned()).into())
}

fn record(args: &Args, plan: &Plan) -> anyhow::Result<LiveMeasurement> {
    interrupt::watch_patiently()?;
    let room = (args.duration.as_secs_f64() * EVENTS_S * BYTES_PER_EVENT) as u64;
    let scratch = scratch::create(args.scratch.as_deref(), room)?;
    let trace = args.keep_trace.clone().unwrap_or_else(|| scratch.path().join("recording.parquet"));
    let options = Options { duration: args.duration, trace, work: args.work.clone() };
    let bar = bar(Some(args.duration), &format!("dir:{}", plan.subject.directory));
    let measured = measure(plan, &options, &interrupt::requested, |progress| show(&bar, progress));
    bar.finish_and_clear();
    Ok(measured?)
}

/// Prints the verification.
fn print(args: &Args, found: &Verification) -> anyhow::Result<()> {
    if args.json {
        return print_json(found);
    }
    print!("{}", plan_text::verification(found, crate::stdout::terminal()));
    let plan = quoted(&args.plan).to_string();
    match found.verdict {
        VerificationVerdict::NotApplied => println!(
            "\nApply the plan (`poolwright apply {plan}`), and verify {plan} again under the same load."
        ),
        VerificationVerdict::Broken => println!("\n`poolwright undo {plan}` restores the previous state."),
        VerificationVerdict::Kept | VerificationVerdict::Less | VerificationVerdict::Unclear => {}
    }
    Ok(())
}
