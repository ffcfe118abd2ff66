//! `poolwright apply`: sets the properties that a plan recommends, and rewrites the database's files.

use std::path::PathBuf;

use anyhow::anyhow;
use poolwright_apply::journal::interrupted;
use poolwright_apply::run::{ApplyReport, Outcome, Run};
use poolwright_apply::{Assessment, Assessor, Journal};
use poolwright_base::Exit;
use poolwright_plan::{BesidePlan as _, Confirmation, Plan, Verdict};
use poolwright_render::assessment_text;

use super::conversion::{ConversionArgs, RUNNING, Reporter, journals};
use super::new_pool::{self, NewPoolRequest};
use super::pool_connection::{parse_dataset, print_json};
use super::unsafe_values::UnsafeValueArgs;
use crate::failure::{Refused, hint};
use crate::interrupt;

/// Set the properties that a plan recommends, and rewrite the database's files
///
/// Sets the recommended properties, and rewrites the files that were written with other ones: each file is copied within its
/// dataset and compared, and the copy is renamed over it. Attributes, ACLs, holes and hard links are kept. A directory for which the plan
/// recommends a separate dataset (PostgreSQL's log) moves to a new dataset, and a link takes its place. The database must be stopped during
/// the run: name its systemd unit, or the commands that stop and start it. A snapshot keeps the old state for `poolwright undo`.
///
/// A journal makes it safe to interrupt: after a crash, run the same command again to continue, or `poolwright undo` to restore the
/// previous state. Works on datasets of the kernel's OpenZFS (as root) and on mounted pools of the user-space engine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan of `poolwright tune`
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Print what would be done, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Apply the plan even if its confirmation by the database contradicts it
    #[arg(long)]
    unconfirmed: bool,

    /// Do not move directories into separate datasets
    #[arg(long)]
    no_move: bool,

    /// Move the database to another pool, for another ashift or layout of vdevs: to new datasets below this one, with the recommended
    /// properties. They are mounted at the mount points of the present datasets, which are kept but not mounted
    #[arg(long, value_name = "DATASET", value_parser = parse_dataset, conflicts_with_all = ["no_move"])]
    new_pool: Option<String>,

    /// With --new-pool, for PostgreSQL: instead of copying files, build a standby server there (pg_basebackup, streaming replication),
    /// which then replaces the present server. The database is stopped for seconds, whatever its size
    #[arg(long, group = RUNNING, requires = "new_pool")]
    standby: bool,

    #[command(flatten)]
    unsafe_values: UnsafeValueArgs,

    #[command(flatten)]
    how: ConversionArgs,

    /// Print one JSON object: {assessment, outcome}
    #[arg(long)]
    json: bool,
}

/// Applies and returns the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let plan = Plan::read(&args.plan, args.unsafe_values.allowed()).map_err(poolwright_apply::Error::from)?;
    for risk in plan.risks() {
        eprintln!("poolwright: warning: {risk}");
    }
    // Another pool can be worth it although the properties stay.
    if plan.verdict == Verdict::Keep && args.new_pool.is_none() {
        eprintln!("poolwright: the plan recommends no change: {}", plan.why);
        return Ok(Exit::NothingToChange.code());
    }
    let confirmation = Confirmation::beside(&args.plan, &plan).map_err(poolwright_apply::Error::from)?;
    if confirmation.is_some_and(|found| found.contradicts_the_plan()) && !args.unconfirmed {
        let why = "`poolwright confirm` contradicted this plan";
        return Err(anyhow!(why).context(Refused).context(hint("use --unconfirmed to apply it anyway")));
    }
    if let Some(parent) = &args.new_pool {
        let (is_dry_run, is_json) = (args.dry_run, args.json);
        let is_standby = args.standby;
        let request =
            NewPoolRequest { plan: &plan, path: &args.plan, parent, is_standby, is_dry_run, is_json };
        return new_pool::run(&request, &args.how);
    }
    let id = plan.id();
    new_pool::check_not_begun(&id)?;
    let assessor = Assessor::new(&plan, interrupted(&journals(), &id)?)?;
    let assessor = if args.no_move { assessor.without_moves() } else { assessor };
    let assessment = assessor.assess(&id, &args.plan)?;
    if !args.json {
        print!("{}", assessment_text::assessment(&assessment));
    }
    if args.dry_run {
        // As a run would be refused.
        let space = assessment.check_space();
        if args.json {
            print_json(&ApplyReport { assessment, outcome: None })?;
        }
        space?;
        return Ok(0);
    }
    let outcome = apply(args, &id, &assessment)?;
    match args.json {
        true => print_json(&ApplyReport { assessment, outcome: Some(outcome) })?,
        false => print!("{}", assessment_text::outcome(&outcome, &args.plan.display().to_string())),
    }
    Ok(0)
}

fn apply(args: &Args, id: &str, assessment: &Assessment) -> anyhow::Result<Outcome> {
    let options = args.how.options();
    let journal = Journal::open(&journals(), id)?;
    let is_begun = journal.state().is_some_and(|state| !state.is_undone() && !state.is_applied());
    if !assessment.is_empty() || is_begun {
        if assessment.datasets.iter().any(|of| of.rewritten_files > 0 || !of.relocations.is_empty()) {
            args.how.check_stoppable(assessment.running.as_ref())?;
        }
        assessment.check_space()?;
        args.how.confirm("Apply?")?;
    }
    interrupt::watch_patiently()?;
    let mut reporter = Reporter::new(args.json);
    let outcome = Run::new(journal, options, &mut reporter)?.apply(assessment.work.clone());
    reporter.end();
    Ok(outcome?)
}
