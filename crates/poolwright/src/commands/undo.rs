//! `poolwright undo`: restores the state before a plan was applied.

use std::path::PathBuf;

use poolwright_apply::Journal;
use poolwright_apply::run::Run;
use poolwright_plan::Plan;
use poolwright_render::assessment_text;

use super::conversion::{ConversionArgs, Reporter, journals};
use super::new_pool;
use super::pool_connection::print_json;
use crate::interrupt;

/// Restore the state before a plan was applied
///
/// Restores the properties with their sources, and rewrites the files with them. If nothing was written since the plan was applied, rolls
/// the datasets back to their snapshots instead. Also removes what an interrupted `poolwright apply` left behind. If `apply` moved the
/// database to another pool, moves it back. Exit code 3 means that the plan cannot be undone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Keep the plan applied, and destroy the snapshots that hold the old blocks. The plan can then no longer be undone
    #[arg(long, conflicts_with_all = ["unit", "stop", "start", "online"])]
    discard: bool,

    #[command(flatten)]
    how: ConversionArgs,

    /// Print one JSON object: {action, files, bytes, rolled_back, downtime_s, expected_downtime_s, snapshots}
    #[arg(long)]
    json: bool,
}

/// Undoes and returns the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let plan = Plan::read_unchecked(&args.plan).map_err(poolwright_apply::Error::from)?;
    if let Some(code) = new_pool::undo(&plan, &args.plan, args.discard, &args.how, args.json)? {
        return Ok(code);
    }
    let journal = Journal::open(&journals(), &plan.id())?;
    if journal.state().is_some_and(|state| !state.is_undone()) {
        args.how.confirm(if args.discard { "Destroy the snapshots?" } else { "Undo?" })?;
    }
    interrupt::watch_patiently()?;
    let mut reporter = Reporter::new(args.json);
    let run = Run::new(journal, args.how.options(), &mut reporter)?;
    let outcome = if args.discard { run.discard() } else { run.undo() };
    reporter.end();
    let outcome = outcome?;
    match args.json {
        true => print_json(&outcome)?,
        false => print!("{}", assessment_text::outcome(&outcome, &args.plan.display().to_string())),
    }
    Ok(0)
}
