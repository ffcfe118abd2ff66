//! `poolwright apply --new-pool`: moves the database to another pool; also the corresponding `undo`.

use std::path::Path;

use anyhow::anyhow;
use poolwright_apply::Journal;
use poolwright_apply::assessment::RunningDatabase;
use poolwright_apply::migration::run::MigrationReport;
use poolwright_apply::migration::state::{MigrationPhase, RESTARTED};
use poolwright_apply::migration::{
    MigrationAssessor, MigrationOutcome, MigrationRun, StateFile, check_standby, state,
};
use poolwright_base::quoted;
use poolwright_plan::Plan;
use poolwright_render::migration_text;

use super::conversion::{ConversionArgs, Reporter, journals};
use super::pool_connection::print_json;
use crate::failure::{Refused, hint};
use crate::interrupt;

/// What the user asked for.
pub struct NewPoolRequest<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its file.
    pub path: &'a Path,
    /// The dataset below which the new ones are.
    pub parent: &'a str,
    /// Whether a standby server takes the database's place.
    pub is_standby: bool,
    /// Whether only to show what would be done.
    pub is_dry_run: bool,
    /// Whether to print JSON.
    pub is_json: bool,
}

/// Moves the database, or continues to; returns the exit code.
pub fn run(request: &NewPoolRequest<'_>, how: &ConversionArgs) -> anyhow::Result<u8> {
    let id = request.plan.id();
    let begun = state::read(&journals(), &id)?.filter(|state| !state.is_undone());
    if let Some(other) = begun.as_ref().filter(|state| state.work.parent != request.parent) {
        let why = format!("the database is on {} or being moved there", other.work.parent);
        return Err(anyhow!(why).context(Refused).context(hint("complete or undo that first")));
    }
    let assessment = match &begun {
        Some(_) => None,
        None => Some(
            MigrationAssessor::new(request.plan, &id, request.parent, &journals()).assess(request.path)?,
        ),
    };
    if let Some(assessment) = assessment.as_ref().filter(|_| request.is_standby) {
        check_standby(&assessment.work)?;
    }
    if let Some(assessment) = assessment.as_ref().filter(|_| !request.is_json) {
        print!("{}", migration_text::assessment(assessment));
    }
    if request.is_dry_run {
        // As a run would be refused.
        let space = assessment.as_ref().map_or(Ok(()), |of| of.check_space());
        let report = MigrationReport { assessment, outcome: None };
        if request.is_json {
            print_json(&report)?;
        } else if report.assessment.is_none() {
            println!("a run was begun; run the same command without --dry-run to continue it");
        }
        space?;
        return Ok(0);
    }
    let options = how.options();
    let journal = Journal::open(&journals(), &id)?;
    if journal.state().is_some_and(|state| !state.is_undone()) {
        let why = "the plan is applied to the present datasets";
        return Err(anyhow!(why)
            .context(Refused)
            .context(hint("`poolwright undo` restores the previous state")));
    }
    if let Some(state) = begun.as_ref().filter(|state| state.phase < MigrationPhase::Switching) {
        how.check_stoppable(RunningDatabase::find(&state.work.roots()).as_ref())?;
    }
    if let Some(assessment) = &assessment {
        how.check_stoppable(assessment.running.as_ref())?;
        assessment.check_space()?;
        how.confirm(&format!("Move the database to {}?", request.parent))?;
    }
    interrupt::watch_patiently()?;
    let mut reporter = Reporter::new(request.is_json);
    let work = assessment.as_ref().map(|of| of.work.clone());
    let downtime = journal.downtime_with_note(RESTARTED)?;
    let run = MigrationRun::new(StateFile::open(&journals(), &id)?, downtime, options, &mut reporter);
    let run = if request.is_standby { run.by_standby() } else { run };
    let outcome = run.execute(work);
    reporter.end();
    show(request.is_json, MigrationReport { assessment, outcome: Some(outcome?) }, request.path)
}

/// Refuses to apply a plan to the present datasets while its database moves to another pool, or has moved.
pub fn check_not_begun(id: &str) -> anyhow::Result<()> {
    match state::read(&journals(), id)?.filter(|state| !state.is_undone()) {
        None => Ok(()),
        Some(state) => {
            let why = format!("the database is on {} or being moved there", state.work.parent);
            let todo = format!(
                "continue with --new-pool {}, or move back with `poolwright undo`",
                state.work.parent
            );
            Err(anyhow!(why).context(Refused).context(hint(todo)))
        }
    }
}

/// Moves the database back, if it was moved; `None` if it was not.
pub fn undo(
    plan: &Plan,
    path: &Path,
    discard: bool,
    how: &ConversionArgs,
    is_json: bool,
) -> anyhow::Result<Option<u8>> {
    let id = plan.id();
    let Some(state) = state::read(&journals(), &id)? else { return Ok(None) };
    let journal = Journal::open(&journals(), &id)?;
    if state.is_undone() && journal.state().is_some() {
        return Ok(None);
    }
    if discard && !state.is_undone() {
        let old: Vec<String> =
            state.work.moves.iter().map(|of| format!("zfs destroy -r {}", of.source)).collect();
        let why =
            format!("{} is on another pool, and no snapshot keeps old blocks", quoted(&state.work.directory));
        let todo = format!("`{}` frees the space of its former datasets", old.join("; "));
        return Err(anyhow!(why).context(Refused).context(hint(todo)));
    }
    if !state.is_undone() {
        how.confirm("Move the database back?")?;
    }
    interrupt::watch_patiently()?;
    let mut reporter = Reporter::new(is_json);
    let downtime = journal.downtime_with_note(RESTARTED)?;
    let file = StateFile::open(&journals(), &id)?;
    let outcome = MigrationRun::new(file, downtime, how.options(), &mut reporter).undo();
    reporter.end();
    drop(journal);
    show(is_json, MigrationReport { assessment: None, outcome: Some(outcome?) }, path).map(Some)
}

fn show(is_json: bool, report: MigrationReport, plan: &Path) -> anyhow::Result<u8> {
    match is_json {
        true => print_json(&report)?,
        false => {
            let outcome: MigrationOutcome = report.outcome.unwrap_or_default();
            print!("{}", migration_text::outcome(&outcome, &plan.display().to_string()));
        }
    }
    Ok(0)
}
