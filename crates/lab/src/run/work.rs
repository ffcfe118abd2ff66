//! One trial of a queue, by a worker that a scheduler has started.

use std::time::Duration;

use super::worker::TrialWorker;
use super::{Event, Options, local_machine, plan, prepare, trial_name};
use crate::campaign::{Campaign, Study};
use crate::store::{Run, Store, Trial};
use crate::{Error, Result};

/// For how long a worker tries to save its result.
const PATIENCE: Duration = Duration::from_secs(600);

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
    let studies: Vec<&Study> = campaign.studies.iter().filter(|study| study.is_of(&run.scale)).collect();
    // Two nodes may share a machine.
    let scratch_dir = match prepare(campaign, options, &studies, &format!("poolwright-lab-{node}")) {
        Ok(scratch_dir) => scratch_dir,
        Err(error) => {
            machine.insert(PROBLEM.to_owned(), error.to_string());
            store.save_node(id, node, &machine)?;
            return Err(error);
        }
    };
    let mut worker = TrialWorker::new(plan(campaign, options), options, scratch_dir, node, PATIENCE);
    if interrupted() {
        return Err(Error::Interrupted);
    }
    let Some(claim) = worker.claim(store, id)? else { return Ok(Worked::Nothing) };
    store.save_node(id, node, &machine)?;
    watch(Event::Note(format!("{node}: {} begins", trial_name(&claim.key))));
    Ok(match worker.run(store, id, &claim, interrupted, watch)? {
        Some(trial) => Worked::Ended(Box::new(trial)),
        None => Worked::Lost,
    })
}
