//! A run on the nodes of a cluster: preparing its shared directory, and running a task on a node.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use poolwright_base::{cannot, quoted};

use super::shared::{Claim, SharedDir, SharedRun, TaskCounts};
use super::trials::RunTrials;
use super::worker::TrialWorker;
use super::{Event, Options, chosen, local_machine, new_run, plan, prepare, trial_name};
use crate::campaign::Campaign;
use crate::store::{Run, Store, Trial};
use crate::{Error, Result, TrialKey};

/// The state of a shared directory after [`share`].
#[derive(Clone, Debug)]
pub struct Shared {
    /// Number of the run in the results.
    pub run: i64,
    /// Number of results that were collected.
    pub collected: usize,
    /// Number of trials of the run that have succeeded.
    pub succeeded: usize,
    /// Collected trials that failed, with the reasons. They are repeated by the next tasks.
    pub failed: Vec<(TrialKey, String)>,
    /// Number of trials that the results lack.
    pub missing: usize,
    /// The tasks.
    pub tasks: TaskCounts,
    /// Facts about nodes that could not run a task: their name and the reason.
    pub problems: Vec<(String, String)>,
}

/// The field of a node's facts with the reason why it could not run a task.
const PROBLEM: &str = "problem";

/// Collects the results in a shared directory, and writes tasks for the trials that are missing then, unless nodes are running tasks.
///
/// # Errors
/// [`Error::Usage`] if the directory has tasks of another run, or the options do not fit the campaign; the errors of the host and of the
/// store.
pub fn share(
    campaign: &Campaign,
    text: &str,
    options: &Options,
    lease: Duration,
    path: &Path,
    store: &mut Store,
) -> Result<Shared> {
    let studies = chosen(campaign, options)?;
    let run = shared_run(campaign, text, options, path)?;
    let id = store.begin(&run)?;
    let before = SharedDir::open(path)?;
    let mut collected = Vec::new();
    if let Some(dir) = &before {
        if !is_same(&dir.shared.run, &run) {
            return Err(Error::Usage(format!(
                "{} belongs to another run: of {}, scale {}, seed {}, or of another text of the campaign",
                quoted(&path),
                dir.shared.run.campaign,
                dir.shared.run.scale,
                dir.shared.run.seed
            )));
        }
        collected = dir.collect(store, id)?;
    }
    let problems: Vec<(String, String)> = store
        .nodes(id)?
        .into_iter()
        .filter_map(|(node, mut machine)| Some((node, machine.remove(PROBLEM)?)))
        .collect();
    let trials = store.trials(id)?;
    let succeeded = trials.iter().filter(|trial| trial.outcome.is_ok()).count();
    let blocks = RunTrials::new(id, campaign, &studies, options, trials).missing();
    let missing = blocks.iter().map(Vec::len).sum();
    let running = before.as_ref().map(SharedDir::counts).transpose()?.filter(|counts| counts.claimed > 0);
    let tasks = match running {
        Some(counts) => counts,
        None => {
            let (only, lease_s) = (options.only.clone(), lease.as_secs());
            SharedDir::write(path, SharedRun { run, only, lease_s, tasks: blocks })?.counts()?
        }
    };
    let failed = |trial: &Trial| Some((trial.key.clone(), trial.outcome.as_ref().err()?.clone()));
    let failed = collected.iter().filter_map(failed).collect();
    Ok(Shared { run: id, collected: collected.len(), succeeded, failed, missing, tasks, problems })
}

/// The run of a shared directory. Its nodes are those that run its tasks.
fn shared_run(campaign: &Campaign, text: &str, options: &Options, path: &Path) -> Result<Run> {
    let path = std::path::absolute(path).map_err(cannot("inspect", path))?;
    let machine = BTreeMap::from([
        ("host".to_owned(), format!("shared {}", path.display())),
        ("poolwright".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    Ok(new_run(campaign, text, options, machine))
}

fn is_same(a: &Run, b: &Run) -> bool {
    (&a.campaign, &a.text, &a.scale, a.seed, &a.target) == (&b.campaign, &b.text, &b.scale, b.seed, &b.target)
}

/// The outcome of a task on a node.
#[derive(Debug)]
pub enum RanTask {
    /// The task had ended already.
    Nothing,
    /// All of its trials have results now. These ran on this node.
    Ended(Vec<Trial>),
    /// Another node has taken it over.
    Lost,
}

/// Runs the trials of a task that have no result, on this machine. `node` is its name in the cluster.
///
/// # Errors
/// Fails if the machine lacks a requirement of the campaign, which it also reports to [`share`]; if the user or the scheduler interrupts
/// the task, which another node can then run; the host's errors.
pub fn run_task(
    campaign: &Campaign,
    dir: &SharedDir,
    task: usize,
    options: &Options,
    node: &str,
    interrupted: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<RanTask> {
    let mut machine = local_machine(&options.scratch);
    let prepared = check_version(&dir.shared.run, &machine).and_then(|()| {
        let studies = chosen(campaign, options)?;
        // Two nodes may share a machine.
        prepare(campaign, options, &studies, &format!("poolwright-lab-{node}"))
    });
    let scratch_dir = match prepared {
        Ok(scratch_dir) => scratch_dir,
        Err(error) => {
            machine.insert(PROBLEM.to_owned(), error.to_string());
            dir.put_node(node, &machine)?;
            return Err(error);
        }
    };
    let mut worker = TrialWorker::new(plan(campaign, options), options, scratch_dir, node);
    let Some(claim) = dir.claim(task, node, interrupted)? else { return Ok(RanTask::Nothing) };
    dir.put_node(node, &machine)?;
    let keeper = claim.keep();
    let stop = || keeper.is_lost() || interrupted();
    let ran = run_trials(dir, task, &claim, &mut worker, &stop, watch);
    match ran {
        _ if keeper.is_lost() => Ok(RanTask::Lost),
        Ok(trials) => claim.end().map(|()| RanTask::Ended(trials)),
        Err(error) => {
            claim.release();
            Err(error)
        }
    }
}

fn run_trials(
    dir: &SharedDir,
    task: usize,
    claim: &Claim,
    worker: &mut TrialWorker<'_>,
    stop: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Trial>> {
    let mut ran = Vec::new();
    for (number, key) in dir.shared.tasks[task].iter().enumerate() {
        if claim.has_result(number) {
            continue;
        }
        if stop() {
            return Err(Error::Interrupted);
        }
        watch(Event::Note(format!("{} begins", trial_name(key))));
        let trial = worker.run(key, stop, watch)?;
        if claim.add_result(number, &trial)? {
            watch(Event::Ended(&trial));
            ran.push(trial);
        }
    }
    Ok(ran)
}

/// Refuses a run that another release of Poolwright has prepared: its trials are not comparable.
fn check_version(run: &Run, machine: &BTreeMap<String, String>) -> Result<()> {
    let (begun, here) = (run.machine.get("poolwright"), machine.get("poolwright"));
    if begun == here {
        return Ok(());
    }
    let shown = |version: Option<&String>| version.cloned().unwrap_or_default();
    Err(Error::Missing(format!(
        "Poolwright {} prepared the run, but this node has {}",
        shown(begun),
        shown(here)
    )))
}
