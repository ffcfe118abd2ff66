//! `poolwright tune --repeat PLAN`: repeats the run that made a plan, and compares the recommendations.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, anyhow};
use poolwright_render::plan_page::format;
use poolwright_tune::Request;
use poolwright_tune::plan::Plan;
use poolwright_tune::repeat::{Repeatable, compare, repeatable};

use super::{Args, Outputs, Tuned, interrupted, write_and_print};
use crate::commands::options::{self, Usage};
use crate::scratch;

/// The exit code if the repetition recommends other settings.
const DIFFERENT: u8 = 1;

/// Repeats the run that made the plan in `path`; returns the exit code.
///
/// # Errors
/// If the plan cannot be read or repeated, or as `tune`.
pub fn run(args: &Args, path: &Path, stop: &Arc<AtomicBool>) -> anyhow::Result<u8> {
    let old = read(path)?;
    let found = repeatable(&old, args.dir.as_deref(), args.trace.as_deref())
        .with_context(|| format!("cannot repeat {}", path.display()))
        .context(Usage)?;
    options::parse_arc(&found.record.arc_bytes.to_string())
        .map_err(|why| anyhow!("cannot repeat {}: the plan's ARC: {why}", path.display()))
        .context(Usage)?;
    options::check_trace(&found.trace)?;
    let outputs = Outputs::open(args)?;
    let record = &found.record;
    let scratch = scratch::create(args.trial.scratch.as_deref(), record.sample_bytes.saturating_mul(4))?;
    let request = request(found, scratch.path(), stop);
    let mut new = match super::tuned(&request)? {
        Tuned::Done(plan) => *plan,
        Tuned::Interrupted => return Ok(interrupted(args, outputs)),
    };
    let repetition = compare(&old, &new);
    let same = repetition.same;
    new.repetition = Some(repetition);
    if !args.json {
        say(&old, &new);
    }
    write_and_print(args, outputs, &new)?;
    Ok(if same { 0 } else { DIFFERENT })
}

fn read(path: &Path) -> anyhow::Result<Plan> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the plan {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a plan", path.display())).context(Usage)
}

fn request(found: Repeatable, scratch: &Path, stop: &Arc<AtomicBool>) -> Request {
    let Repeatable { dir, trace, goal, requirements, record } = found;
    Request {
        dir,
        trace,
        keep_trace: true,
        goal,
        requirements,
        budget: Duration::from_secs_f64(record.budget_s),
        arc_bytes: record.arc_bytes,
        dirty_bytes: record.dirty_bytes,
        ashift: record.ashift,
        device: record.device,
        scratch: scratch.to_owned(),
        program: options::this_program(),
        stated: record.stated,
        seed: record.seed,
        max_bytes: record.sample_bytes,
        check_advice: record.check_advice,
        stop: Arc::clone(stop),
    }
}

/// Prints both recommendations and their differences.
fn say(old: &Plan, new: &Plan) {
    let Some(repetition) = &new.repetition else { return };
    let same = if repetition.same { "recommends the same" } else { "recommends other settings" };
    println!("Repeated the plan of {}: this run {same}.", old.created);
    for (when, plan) in [("then", old), ("now", new)] {
        for (i, line) in recommendations(plan).iter().enumerate() {
            println!("  {:4}  {line}", if i == 0 { when } else { "" });
        }
    }
    for line in &repetition.differences {
        println!("  differs: {line}");
    }
    for line in &repetition.circumstances {
        println!("  note: {line}");
    }
    println!();
}

/// One line for each role.
fn recommendations(plan: &Plan) -> Vec<String> {
    let one = |role: &poolwright_tune::plan::Role| {
        let settings = format::settings(&role.recommended);
        let settings = if settings.is_empty() { "keep" } else { &settings };
        poolwright_report::escape::line(&format!("{}: {settings}", format::role_name(&plan.roles, role)))
    };
    plan.roles.iter().map(one).collect()
}
