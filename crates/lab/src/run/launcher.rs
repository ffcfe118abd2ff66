//! Launchers: what makes workers run the trials of a queue.

use std::collections::BTreeMap;
use std::time::Duration;

use poolwright_host::kernel;

use super::coordinator::Coordinator;
use super::scratch_dir::ScratchDir;
use super::worker::TrialWorker;
use super::{Event, Options, PATIENCE, local_machine};
use crate::Result;
use crate::order::Plan;
use crate::store::{self, TaskState};

/// How long a launcher waits if it has nothing to do.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Makes workers run the trials of a queue.
pub(super) trait Launcher {
    /// What is known of the machine or the cluster; `host` is its name. Trials of different ones are not in the same run.
    fn machine(&self) -> &BTreeMap<String, String>;

    /// Gets on with the trials of the queue, while it has some that have not ended. Returns when one has ended or after a while.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; whatever prevents further trials.
    fn advance(
        &mut self,
        coordinator: &mut Coordinator<'_>,
        interrupted: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<()>;

    /// Whether its workers go on while the results cannot be reached.
    fn has_patience(&self) -> bool;

    /// Ends its workers after an error or an interruption.
    fn cancel(&mut self) -> Result<()>;
}

/// Runs the trials in this process, one after another.
pub(super) struct LocalLauncher<'a> {
    worker: TrialWorker<'a>,
    machine: BTreeMap<String, String>,
    is_waiting: bool,
}

impl<'a> LocalLauncher<'a> {
    /// The requirements of the studies are met.
    pub(super) fn new(plan: Plan<'a>, options: &'a Options, scratch_dir: ScratchDir) -> LocalLauncher<'a> {
        // A file that cannot be written now cannot later.
        let patience = if store::is_url(&options.results) { PATIENCE } else { Duration::ZERO };
        let worker = TrialWorker::new(plan, options, scratch_dir, &kernel::host_name(), patience);
        LocalLauncher { worker, machine: local_machine(&options.scratch), is_waiting: false }
    }
}

impl Launcher for LocalLauncher<'_> {
    fn machine(&self) -> &BTreeMap<String, String> {
        &self.machine
    }

    fn advance(
        &mut self,
        coordinator: &mut Coordinator<'_>,
        interrupted: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let run = coordinator.run;
        let Some(claim) = self.worker.claim(coordinator.store, run)? else {
            let tasks = coordinator.collect(watch)?;
            let is_claimed = tasks.iter().any(|task| task.state == TaskState::Claimed);
            if is_claimed && !self.is_waiting {
                self.is_waiting = true;
                watch(Event::Note("waiting for trials that another process runs".to_owned()));
            }
            std::thread::sleep(PAUSE);
            return Ok(());
        };
        coordinator.begun(&claim.key, watch);
        match self.worker.run(coordinator.store, run, &claim, interrupted, watch)? {
            Some(trial) => coordinator.ended(trial, watch),
            None => watch(Event::Note("another process has taken over the trial".to_owned())),
        }
        Ok(())
    }

    fn has_patience(&self) -> bool {
        false
    }

    fn cancel(&mut self) -> Result<()> {
        Ok(())
    }
}
