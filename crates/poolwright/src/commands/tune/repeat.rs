//! `poolwright tune --repeat PLAN`: repeats the run that made a plan, and compares the recommendations.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow};
use poolwright_host::quoted;
use poolwright_render::plan_text;
use poolwright_replay::{capture, child};
use poolwright_tune::plan::Plan;
use poolwright_tune::repeat::{compare, repeatable};

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
        .with_context(|| format!("cannot repeat {}", quoted(&path)))
        .context(Usage)?;
    options::parse_arc(&found.record.arc_bytes.to_string())
        .map_err(|why| anyhow!("cannot repeat {}: the plan's ARC: {why}", quoted(&path)))
        .context(Usage)?;
    options::check_trace(&found.trace)?;
    let outputs = Outputs::open(args)?;
    let record = &found.record;
    let on = record.on.as_deref();
    let side_by_side = match (&record.costs, on) {
        (Some(_), None) => child::side_by_side(record.arc_bytes, record.sample_bytes),
        _ => 1,
    };
    let room = capture::room_for(record.sample_bytes, record.sample_bytes, side_by_side);
    let scratch = scratch::create(args.trial.scratch.as_deref(), room)?;
    let on = on.map(|dataset| args.pool.below(dataset, scratch.path(), record.sample_bytes)).transpose()?;
    let on = on.map(|pool| pool.trials);
    let request =
        found.into_request(scratch.path(), options::this_program(), on, side_by_side, Arc::clone(stop));
    let mut new = match super::tuned(&request)? {
        Tuned::Done(plan) => *plan,
        Tuned::Interrupted => return Ok(interrupted(args, outputs)),
    };
    let repetition = compare(&old, &new);
    let same = repetition.same;
    new.repetition = Some(repetition);
    if !args.json {
        print!("{}", plan_text::repetition(&old, &new));
    }
    write_and_print(args, outputs, &new)?;
    Ok(if same { 0 } else { DIFFERENT })
}

fn read(path: &Path) -> anyhow::Result<Plan> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the plan {}", quoted(&path)))?;
    serde_json::from_str(&text)
        .map_err(|why| {
            let no_json = if why.is_data() { "" } else { ": it is not JSON" };
            anyhow!("{} is not a plan{no_json}: {why}", quoted(path))
        })
        .context(Usage)
}
