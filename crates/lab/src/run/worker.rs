//! Runs single trials of a run's queue on this machine.

use std::time::{Duration, Instant};

use poolwright_host::quoted;
use poolwright_host::time::now;

use super::lease::LeaseKeeper;
use super::scratch_dir::ScratchDir;
use super::{Event, Options, child};
use crate::campaign::Study;
use crate::order::Plan;
use crate::run_target::PoolWrites;
use crate::store::{Claim, Claimant, Process, Store, Trial};
use crate::{Error, Outcome, Result};

/// How often a result is saved again while the store cannot be reached.
const SAVE_AGAIN: Duration = Duration::from_secs(5);

/// Runs trials on this machine, one at a time.
#[derive(Debug)]
pub(super) struct TrialWorker<'a> {
    plan: Plan<'a>,
    options: &'a Options,
    scratch_dir: ScratchDir,
    identity: Claimant,
    written: PoolWrites,
    /// For how long a result is kept if it cannot be saved.
    patience: Duration,
}

/// The result of a claimed trial.
type Ran = std::result::Result<Outcome, String>;

impl<'a> TrialWorker<'a> {
    /// A worker of this process on the machine `node`.
    pub(super) fn new(
        plan: Plan<'a>,
        options: &'a Options,
        scratch_dir: ScratchDir,
        node: &str,
        patience: Duration,
    ) -> TrialWorker<'a> {
        let studies = options.only.clone();
        let identity =
            Claimant { node: node.to_owned(), process: Process::current(), lease: options.lease, studies };
        TrialWorker { plan, options, scratch_dir, identity, written: PoolWrites::default(), patience }
    }

    /// Claims a trial; `None` if there is none for this worker at present.
    ///
    /// # Errors
    /// Those of the store; [`poolwright_replay::Error::WroteEnough`].
    pub(super) fn claim(&self, store: &mut dyn Store, run: i64) -> Result<Option<Claim>> {
        self.written.check(&self.options.target)?;
        store.claim(run, &self.identity)
    }

    /// Runs a claimed trial and saves it. Returns `None` if another worker has claimed it meanwhile. After an error, the trial is in the
    /// queue again.
    ///
    /// # Errors
    /// Those of the store; [`Error::Interrupted`]; the errors of the host, and of a pool of the kernel.
    pub(super) fn run(
        &mut self,
        store: &mut dyn Store,
        run: i64,
        claim: &Claim,
        interrupted: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<Trial>> {
        let started = now();
        // Until the trial is saved.
        let lease = LeaseKeeper::start(&self.options.results, run, &self.identity, claim);
        let outcome = match self.outcome(claim, &|| lease.is_lost() || interrupted(), watch) {
            Ok(outcome) => outcome,
            Err(_) if lease.is_lost() => return Ok(None),
            Err(error) => {
                // If the store cannot be reached, the lease expires.
                let _ = store.release(run, claim);
                return Err(error);
            }
        };
        let node = self.identity.node.clone();
        let trial = Trial { key: claim.key.clone(), position: claim.position, started, node, outcome };
        Ok(self.save(store, run, claim, &trial)?.then_some(trial))
    }

    fn outcome(
        &mut self,
        claim: &Claim,
        stop: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Ran> {
        let study = self.study(claim)?;
        let position = claim.position;
        let scratch = self.scratch_dir.trial(position)?;
        let spec = self.plan.spec(study, &claim.key.case, claim.key.block, scratch);
        let mut report = |progress: child::Progress| watch(Event::Progress(&progress));
        let ended = child::run(&self.options.program, &spec, position, &self.scratch_dir, stop, &mut report);
        let (pool, killed) = ended.as_ref().map_or((None, 0), |ended| (ended.pool, ended.killed));
        self.written.add(pool.map_or(0, |pool| pool.device_written_bytes));
        self.tidy(ended.map(|ended| ended.outcome), position, killed, watch)
    }

    fn study(&self, claim: &Claim) -> Result<&'a Study> {
        let campaign = self.plan.campaign;
        campaign.study(&claim.key.study).ok_or_else(|| {
            Error::Usage(format!(
                "{} has no study {:?}, which is in the queue",
                campaign.name, claim.key.study
            ))
        })
    }

    /// Ends what the trial left running, and removes or keeps its scratch directory. `killed` processes were ended already.
    fn tidy(
        &self,
        ran: Result<Ran>,
        position: u32,
        killed: usize,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Ran> {
        if self.options.keep && ran.is_ok() {
            let kept = self.scratch_dir.keep(position)?;
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

    /// Saves a trial. If the store cannot be reached, it tries again for a while: a trial may have taken hours.
    fn save(&self, store: &mut dyn Store, run: i64, claim: &Claim, trial: &Trial) -> Result<bool> {
        let begun = Instant::now();
        loop {
            match store.save(run, claim, trial) {
                Err(_) if begun.elapsed() < self.patience => std::thread::sleep(SAVE_AGAIN),
                saved => return saved,
            }
        }
    }
}
