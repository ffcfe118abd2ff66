//! Runs single trials on this machine.

use poolwright_base::quoted;
use poolwright_base::time::now;

use super::scratch_dir::ScratchDir;
use super::{Event, Options, child};
use crate::order::Plan;
use crate::run_target::PoolWrites;
use crate::store::Trial;
use crate::{Error, Outcome, Result, TrialKey};

/// Runs trials on this machine, one at a time.
#[derive(Debug)]
pub(super) struct TrialWorker<'a> {
    plan: Plan<'a>,
    options: &'a Options,
    scratch_dir: ScratchDir,
    node: String,
    written: PoolWrites,
    /// The number of trials that it has begun.
    begun: u32,
}

/// The outcome of a trial, or why it failed.
type Ran = std::result::Result<Outcome, String>;

impl<'a> TrialWorker<'a> {
    /// A worker on the machine `node`, on which the requirements of the studies are met.
    pub(super) fn new(
        plan: Plan<'a>,
        options: &'a Options,
        scratch_dir: ScratchDir,
        node: &str,
    ) -> TrialWorker<'a> {
        let (node, written) = (node.to_owned(), PoolWrites::default());
        TrialWorker { plan, options, scratch_dir, node, written, begun: 0 }
    }

    /// Runs a trial.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; [`Error::Usage`] if the campaign does not have the trial's study; the errors of the host, and of a pool of
    /// the kernel. A failed trial is returned with the reason.
    pub(super) fn run(
        &mut self,
        key: &TrialKey,
        interrupted: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Trial> {
        self.written.check(&self.options.target)?;
        let campaign = self.plan.campaign;
        let unknown = || Error::Usage(format!("{} has no study {:?}", campaign.name, key.study));
        let study = campaign.study(&key.study).ok_or_else(unknown)?;
        let started = now();
        let number = self.begun;
        self.begun += 1;
        let scratch = self.scratch_dir.trial(number)?;
        let spec = self.plan.spec(study, &key.case, key.block, scratch);
        let mut report = |progress: child::Progress| watch(Event::Progress(&progress));
        let ended =
            child::run(&self.options.program, &spec, number, &self.scratch_dir, interrupted, &mut report);
        let (pool, killed) = ended.as_ref().map_or((None, 0), |ended| (ended.pool, ended.killed));
        self.written.add(pool.map_or(0, |pool| pool.device_written_bytes));
        let outcome = self.tidy(ended.map(|ended| ended.outcome), number, killed, watch)?;
        Ok(Trial { key: key.clone(), position: number, started, node: self.node.clone(), outcome })
    }

    /// Ends what the trial left running, and removes or keeps its scratch directory. `killed` processes were ended already.
    fn tidy(
        &self,
        ran: Result<Ran>,
        number: u32,
        killed: usize,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Ran> {
        if self.options.keep && ran.is_ok() {
            let kept = self.scratch_dir.keep(number)?;
            watch(Event::Note(format!("kept: {}", quoted(&kept))));
        }
        let left = killed + self.scratch_dir.clear()?;
        if left > 0 && matches!(ran, Ok(Ok(_))) {
            watch(Event::Note(match left {
                1 => "the trial left 1 process running, which was killed".to_owned(),
                left => format!("the trial left {left} processes running, which were killed"),
            }));
        }
        ran
    }
}
