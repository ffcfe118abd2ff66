//! One trial of a queue, by a worker that a scheduler has started.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::worker::TrialWorker;
use super::{Event, Options, PATIENCE, chosen, local_machine, plan, prepare, trial_name};
use crate::campaign::Campaign;
use crate::store::{Claim, Run, Store, TaskState, Trial};
use crate::{Error, Result};

/// How often a worker without a trial looks again.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The field of a machine that says why it cannot run trials.
pub(super) const PROBLEM: &str = "problem";

/// What a worker did.
#[derive(Debug)]
pub enum Worked {
    /// There was no trial for its node.
    Nothing,
    /// It ran a trial, which is saved.
    Ended(Box<Trial>),
    /// Another worker had claimed its trial before it ended.
    Lost,
}

/// Claims a trial of a run, runs it on this machine, and saves it. `node` is the machine's name in the cluster.
///
/// # Errors
/// Fails if the machine lacks a requirement of the campaign, which it also tells the coordinator through the store; if the user or the
/// scheduler interrupts the trial; if the results cannot be read or written.
pub fn work(
    campaign: &Campaign,
    run: (i64, &Run),
    options: &Options,
    node: &str,
    store: &mut dyn Store,
    interrupted: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Worked> {
    let (id, run) = run;
    let mut machine = local_machine(&options.scratch);
    let prepared = check_version(run, &machine).and_then(|()| {
        let studies = chosen(campaign, options)?;
        // Two nodes may share a machine.
        prepare(campaign, options, &studies, &format!("poolwright-lab-{node}"))
    });
    let scratch_dir = match prepared {
        Ok(scratch_dir) => scratch_dir,
        Err(error) => {
            machine.insert(PROBLEM.to_owned(), error.to_string());
            store.save_node(id, node, &machine)?;
            return Err(error);
        }
    };
    let mut worker = TrialWorker::new(plan(campaign, options), options, scratch_dir, node, PATIENCE);
    let Some(claim) = claim(&worker, store, id, options.lease, interrupted)? else {
        return Ok(Worked::Nothing);
    };
    store.save_node(id, node, &machine)?;
    watch(Event::Note(format!("{node}: {} begins", trial_name(&claim.key))));
    Ok(match worker.run(store, id, &claim, interrupted, watch)? {
        Some(trial) => Worked::Ended(Box::new(trial)),
        None => Worked::Lost,
    })
}

/// Claims a trial. If there is none for this node, it waits for one for the time of a lease: another node may begin and fail.
fn claim(
    worker: &TrialWorker<'_>,
    store: &mut dyn Store,
    run: i64,
    patience: Duration,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<Claim>> {
    let begun = Instant::now();
    loop {
        if interrupted() {
            return Err(Error::Interrupted);
        }
        let claim = worker.claim(store, run)?;
        if claim.is_some() || begun.elapsed() >= patience {
            return Ok(claim);
        }
        if !store.queue(run)?.iter().any(|task| task.state == TaskState::Queued) {
            return Ok(None);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Refuses a run that another release of Poolwright has begun: its trials are not comparable.
fn check_version(run: &Run, machine: &BTreeMap<String, String>) -> Result<()> {
    let (begun, here) = (run.machine.get("poolwright"), machine.get("poolwright"));
    if begun == here {
        return Ok(());
    }
    let shown = |version: Option<&String>| version.cloned().unwrap_or_default();
    Err(Error::Missing(format!(
        "Poolwright {} has begun the run, and {} is on this node",
        shown(begun),
        shown(here)
    )))
}
