//! Workers on a cluster: jobs of a scheduler, each of which runs one trial.

mod command;
mod kubernetes;
mod slurm;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kubernetes::Kubernetes;
use slurm::Slurm;

use super::coordinator::Coordinator;
use super::launcher::{Launcher, PAUSE};
use super::work::PROBLEM;
use super::{Cluster, Event, Options, SchedulerKind};
use crate::store::{Process, Task, TaskState};
use crate::{Error, Result, TrialKey};

/// How often the scheduler is asked for its jobs.
const ASK: Duration = Duration::from_secs(3);
/// For how long the scheduler may not answer.
const SILENCE: Duration = Duration::from_secs(900);
/// After this time without a running worker, the user is told why.
const QUEUED: Duration = Duration::from_secs(60);
/// So often, all workers may end without having claimed a trial, ...
const MOST_IDLE: u32 = 3;
/// ... and for so many leases, no worker may have: that of a lost node is waited for, and its block goes to another one after two.
const IDLE_LEASES: u32 = 5;

/// A scheduler of jobs. One job has many workers, each of which runs `poolwright lab work` for one trial.
trait Scheduler {
    /// The cluster's name.
    fn cluster(&self) -> String;
    /// What is submitted: the command with its input, or the manifest.
    fn job(&self, run: i64, workers: usize, at_once: usize) -> String;
    /// Finds jobs of this run that an earlier process has submitted.
    fn adopt(&mut self, run: i64) -> Result<()>;
    /// Submits a job of so many workers, of which so many run at once.
    fn submit(&mut self, run: i64, workers: usize, at_once: usize) -> Result<()>;
    /// The number of its workers that run or wait to run.
    fn active(&mut self) -> Result<usize>;
    /// Why workers wait to run, if it is known.
    fn obstacle(&mut self) -> Result<Option<String>>;
    /// Ends its jobs.
    fn cancel(&mut self) -> Result<()>;
    /// Where the workers' messages are, for an error.
    fn logs(&self) -> String;
}

/// Submits jobs for the trials of a queue.
pub(super) struct ClusterLauncher {
    scheduler: Box<dyn Scheduler>,
    machine: BTreeMap<String, String>,
    lease: Duration,
    here: Process,
    /// The trials that run, and the number of those that have ended, as last reported to the user.
    running: Vec<(String, TrialKey)>,
    told: usize,
    /// The problems of nodes that the user knows.
    problems: BTreeSet<String>,
    most_workers: usize,
    asked: Option<Instant>,
    /// Since when the scheduler does not answer, and since when it refuses jobs.
    silent: Option<Instant>,
    refused: Option<Instant>,
    /// Whether jobs of an earlier process are known. Nothing is submitted before.
    is_adopted: bool,
    /// When workers were submitted.
    submitted: Option<Instant>,
    /// The last claim, when it was seen, and the last one at the submission.
    claim: (i64, Instant),
    claim_before: i64,
    /// How often in succession the workers ended without a claim.
    idle: u32,
}

impl ClusterLauncher {
    /// Checks that the scheduler can be used.
    pub(super) fn new(cluster: &Cluster, options: &Options) -> Result<ClusterLauncher> {
        let command = command::WorkerCommand::new(cluster, options);
        let scheduler: Box<dyn Scheduler> = match &cluster.scheduler {
            SchedulerKind::Slurm(slurm) => Box::new(Slurm::new(slurm, cluster, command)?),
            SchedulerKind::Kubernetes(kubernetes) => Box::new(Kubernetes::new(kubernetes, cluster, command)?),
        };
        let machine = BTreeMap::from([
            ("host".to_owned(), scheduler.cluster()),
            ("poolwright".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        Ok(ClusterLauncher {
            scheduler,
            machine,
            lease: options.lease,
            here: Process::current(),
            running: Vec::new(),
            told: 0,
            problems: BTreeSet::new(),
            most_workers: cluster.workers,
            asked: None,
            silent: None,
            refused: None,
            is_adopted: false,
            submitted: None,
            claim: (0, Instant::now()),
            claim_before: 0,
            idle: 0,
        })
    }

    /// What it would submit for so many trials.
    pub(super) fn job(&self, run: i64, workers: usize) -> String {
        self.scheduler.job(run, workers, workers.min(self.most_workers))
    }

    /// Tells the user which trials run.
    fn tell(&mut self, coordinator: &Coordinator<'_>, tasks: &[Task], watch: &mut dyn FnMut(Event<'_>)) {
        let is_running = |task: &&Task| task.state == TaskState::Claimed && !task.is_free(&self.here);
        let running: Vec<(String, TrialKey)> =
            tasks.iter().filter(is_running).map(|task| (task.node.clone(), task.key.clone())).collect();
        let (ended, of) = coordinator.counts();
        if running == self.running && ended == self.told {
            return;
        }
        let left = coordinator.left(running.len());
        watch(Event::Workers { running: &running, ended, of, left });
        (self.running, self.told) = (running, ended);
    }

    /// Asks the scheduler. `None` if it does not answer at present: it may be restarted meanwhile.
    fn ask<T>(
        &mut self,
        question: impl FnOnce(&mut dyn Scheduler) -> Result<T>,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<T>> {
        match question(self.scheduler.as_mut()) {
            Ok(answer) => {
                if self.silent.take().is_some() {
                    watch(Event::Note("the scheduler answers again".to_owned()));
                }
                Ok(Some(answer))
            }
            Err(error) => wait_for_scheduler(&mut self.silent, error, watch).map(|()| None),
        }
    }

    /// Submits workers if none is left and trials are.
    fn submit(
        &mut self,
        coordinator: &Coordinator<'_>,
        tasks: &[Task],
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let (trials, at_once) = self.wanted(coordinator, tasks);
        if trials == 0 {
            // Those that run do so without the scheduler's knowledge, or their leases will expire.
            return Ok(());
        }
        if let Some(at) = self.submitted.filter(|_| self.claim.0 == self.claim_before) {
            if at.elapsed() < self.lease / 2 {
                return Ok(());
            }
            self.check_idle()?;
        }
        match self.scheduler.submit(coordinator.run, trials, at_once) {
            Ok(()) => {
                let is_idle = self.submitted.is_some() && self.claim.0 == self.claim_before;
                self.idle = if is_idle { self.idle + 1 } else { 0 };
                self.submitted = Some(Instant::now());
                self.claim_before = self.claim.0;
                self.refused = None;
                Ok(())
            }
            // The first submission shows whether the options are right.
            Err(error) if self.submitted.is_none() => Err(error),
            Err(error) => wait_for_scheduler(&mut self.refused, error, watch),
        }
    }

    /// The number of trials that are free, and that of workers that can have one at the same time: a block runs on one node.
    fn wanted(&self, coordinator: &Coordinator<'_>, tasks: &[Task]) -> (usize, usize) {
        let wanted = || tasks.iter().filter(|task| coordinator.wants(&task.key));
        let trials = wanted().filter(|task| task.is_free(&self.here)).count();
        let unfinished = wanted().filter(|task| !task.has_ended());
        let blocks: BTreeSet<(&str, u32)> =
            unfinished.map(|task| (task.key.study.as_str(), task.key.block)).collect();
        (trials, blocks.len().min(self.most_workers).max(1))
    }

    /// Tells the user of nodes that cannot run trials.
    fn tell_problems(
        &mut self,
        coordinator: &mut Coordinator<'_>,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        for (node, machine) in coordinator.store.nodes(coordinator.run)? {
            if let Some(problem) = machine.get(PROBLEM) {
                let problem = format!("{node}: {problem}");
                if self.problems.insert(problem.clone()) {
                    watch(Event::Note(problem));
                }
            }
        }
        Ok(())
    }

    /// Tells the user why no worker runs, if that lasts.
    fn tell_obstacle(&mut self, watch: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let since = self.submitted.map_or(self.claim.1, |at| at.max(self.claim.1));
        if since.elapsed() < QUEUED {
            return Ok(());
        }
        if let Some(Some(obstacle)) = self.ask(|scheduler| scheduler.obstacle(), watch)?
            && self.problems.insert(obstacle.clone())
        {
            watch(Event::Note(obstacle));
        }
        Ok(())
    }

    /// Fails if all workers ended without having claimed a trial, several times.
    fn check_idle(&self) -> Result<()> {
        if self.idle + 1 < MOST_IDLE || self.claim.1.elapsed() < self.lease * IDLE_LEASES {
            return Ok(());
        }
        let why = if self.problems.is_empty() {
            "the workers end without a trial".to_owned()
        } else {
            self.problems.iter().cloned().collect::<Vec<_>>().join("\n")
        };
        Err(Error::Missing(format!("{why}\nhint: their messages are in {}", self.scheduler.logs())))
    }
}

/// Tells the user once that the scheduler is waited for, and fails if that took too long.
fn wait_for_scheduler(
    since: &mut Option<Instant>,
    error: Error,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<()> {
    let since = *since.get_or_insert_with(|| {
        watch(Event::Note(format!("{error}; waiting for the scheduler")));
        Instant::now()
    });
    if since.elapsed() > SILENCE { Err(error) } else { Ok(()) }
}

impl Launcher for ClusterLauncher {
    fn machine(&self) -> &BTreeMap<String, String> {
        &self.machine
    }

    fn advance(
        &mut self,
        coordinator: &mut Coordinator<'_>,
        _: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let tasks = coordinator.collect(watch)?;
        if coordinator.missing() == 0 {
            return Ok(());
        }
        let last = tasks.iter().map(|task| task.token).max().unwrap_or(0);
        if last > self.claim.0 {
            self.claim = (last, Instant::now());
        }
        self.tell(coordinator, &tasks, watch);
        if self.asked.is_none_or(|at| at.elapsed() >= ASK) {
            self.asked = Some(Instant::now());
            self.tell_problems(coordinator, watch)?;
            if !self.is_adopted {
                let run = coordinator.run;
                self.is_adopted = self.ask(|scheduler| scheduler.adopt(run), watch)?.is_some();
            }
            let active = match self.is_adopted {
                true => self.ask(|scheduler| scheduler.active(), watch)?,
                false => None,
            };
            match active {
                Some(0) => self.submit(coordinator, &tasks, watch)?,
                Some(_) if self.running.is_empty() => self.tell_obstacle(watch)?,
                _ => {}
            }
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }

    fn has_patience(&self) -> bool {
        true
    }

    fn cancel(&mut self) -> Result<()> {
        if self.is_adopted { self.scheduler.cancel() } else { Ok(()) }
    }
}
