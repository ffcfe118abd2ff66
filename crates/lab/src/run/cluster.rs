//! Workers on a cluster: jobs of a scheduler, each of which runs one trial.

mod command;
mod kubernetes;
mod slurm;

use std::collections::BTreeMap;
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
const ASK: Duration = Duration::from_secs(2);
/// For how long the scheduler may not answer: it may be restarted meanwhile.
const SILENCE: Duration = Duration::from_secs(900);
/// So often, all workers may end without having taken a trial.
const MOST_IDLE: u32 = 5;

/// A scheduler of jobs. One job has many workers, each of which runs `poolwright lab work` for one trial.
trait Scheduler {
    /// The cluster's name.
    fn cluster(&self) -> String;
    /// What is submitted: the command with its input, or the manifest.
    fn job(&self, run: i64, workers: usize) -> String;
    /// Submits a job of so many workers.
    fn submit(&mut self, run: i64, workers: usize) -> Result<()>;
    /// The number of its workers that run or wait to run.
    fn active(&mut self) -> Result<usize>;
    /// Ends the job.
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
    /// What was told the user.
    running: Vec<(String, TrialKey)>,
    told: usize,
    asked: Option<Instant>,
    /// Since when the scheduler does not answer.
    silent: Option<Instant>,
    /// The last submission, and the number of trials that had ended.
    submitted: Option<(Instant, usize)>,
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
            asked: None,
            silent: None,
            submitted: None,
            idle: 0,
        })
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

    /// The number of active workers; `None` if the scheduler does not answer at present.
    fn active(&mut self, watch: &mut dyn FnMut(Event<'_>)) -> Result<Option<usize>> {
        match self.scheduler.active() {
            Ok(active) => {
                if self.silent.take().is_some() {
                    watch(Event::Note("the scheduler answers again".to_owned()));
                }
                Ok(Some(active))
            }
            Err(error) => {
                let since = *self.silent.get_or_insert_with(|| {
                    watch(Event::Note(format!("{error}; waiting for the scheduler")));
                    Instant::now()
                });
                if since.elapsed() > SILENCE { Err(error) } else { Ok(None) }
            }
        }
    }

    /// Submits workers if none is left and trials are.
    fn submit(
        &mut self,
        coordinator: &mut Coordinator<'_>,
        tasks: &[Task],
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let free = tasks.iter().filter(|task| task.is_free(&self.here)).count();
        if free == 0 {
            // Those that run do so without the scheduler's knowledge, or their leases will expire.
            return Ok(());
        }
        let ended = coordinator.counts().0;
        if let Some((at, before)) = self.submitted {
            if before == ended && at.elapsed() < self.lease / 2 {
                return Ok(());
            }
            self.idle = if before == ended { self.idle + 1 } else { 0 };
            self.check_idle(coordinator, watch)?;
        }
        match self.scheduler.submit(coordinator.run, free) {
            Ok(()) => self.submitted = Some((Instant::now(), ended)),
            // It may be restarting.
            Err(error) if self.submitted.is_some() && self.silent.is_none() => {
                watch(Event::Note(format!("{error}; waiting for the scheduler")));
                self.silent = Some(Instant::now());
            }
            Err(error) => match self.silent {
                Some(since) if since.elapsed() <= SILENCE => {}
                _ => return Err(error),
            },
        }
        Ok(())
    }

    /// Fails if all workers ended without having taken a trial.
    fn check_idle(&self, coordinator: &mut Coordinator<'_>, watch: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        if self.idle == 0 {
            return Ok(());
        }
        let nodes = coordinator.store.nodes(coordinator.run)?;
        let problems: Vec<String> = nodes
            .iter()
            .filter_map(|(node, machine)| Some(format!("{node}: {}", machine.get(PROBLEM)?)))
            .collect();
        if self.idle == 1 {
            problems.iter().for_each(|problem| watch(Event::Note(problem.clone())));
        }
        if self.idle < MOST_IDLE && problems.len() < nodes.len().max(1) {
            return Ok(());
        }
        let why = if problems.is_empty() {
            "the workers end without taking a trial".to_owned()
        } else {
            problems.join("\n")
        };
        Err(Error::Missing(format!("{why}\nhint: their messages are in {}", self.scheduler.logs())))
    }
}

impl Launcher for ClusterLauncher {
    fn machine(&self) -> &BTreeMap<String, String> {
        &self.machine
    }

    fn advance(
        &mut self,
        coordinator: &mut Coordinator<'_>,
        interrupted: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        if interrupted() {
            return Err(Error::Interrupted);
        }
        coordinator.collect(watch)?;
        if coordinator.missing() == 0 {
            return Ok(());
        }
        let tasks = coordinator.store.queue(coordinator.run)?;
        self.tell(coordinator, &tasks, watch);
        if self.asked.is_none_or(|at| at.elapsed() >= ASK) {
            self.asked = Some(Instant::now());
            let active = if self.submitted.is_some() { self.active(watch)? } else { Some(0) };
            if active == Some(0) {
                self.submit(coordinator, &tasks, watch)?;
            }
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }

    fn job(&self, run: i64, workers: usize) -> Option<String> {
        Some(self.scheduler.job(run, workers))
    }

    fn cancel(&mut self) -> Result<()> {
        if self.submitted.is_some() { self.scheduler.cancel() } else { Ok(()) }
    }
}
