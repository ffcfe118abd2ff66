//! Applying a plan and undoing it.

mod conversion;
mod relocate;
mod space;
mod way_back;

use std::path::PathBuf;
use std::time::Duration;

use poolwright_base::directory::Directory;
use poolwright_base::quoted;
use poolwright_base::{cannot, mountinfo};
use poolwright_dbms::service::{Downtime, Service, check_namespace};
use poolwright_zfs::datasets::{DatasetAdmin, SnapshotSummary, pool_of};
use poolwright_zfs::kernel::DatasetChange;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::assessment::{Assessment, admin_of, check_healthy, check_mounted_once, open_mount};
use crate::error::refused;
use crate::journal::{Journal, JournalPhase, JournalState};
use crate::observer::RunObserver;
use crate::rewrite::{Copies, HiddenDir};
use crate::work::{DatasetWork, Direction, PlanWork};

/// How to apply or undo a plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How the database is stopped and started.
    pub service: Service,
    /// Whether files are copied while the database runs, so that only the changed ones are copied while it is stopped.
    pub online: bool,
    /// Limit for copying while the database runs, in bytes a second.
    pub rate: Option<u64>,
    /// The database is not stopped if it would be stopped for longer.
    pub max_downtime: Option<Duration>,
}

impl Options {
    /// Tells the user how long the database is expected to be stopped, and refuses if that is longer than allowed.
    ///
    /// # Errors
    /// A refusal.
    pub fn announce_downtime(&self, expected: Duration, observer: &mut dyn RunObserver) -> Result<()> {
        let expected_s = expected.as_secs_f64();
        observer.note(&format!(
            "the database will be stopped for about {expected_s:.1} s, and the time that it takes to stop and start"
        ));
        match self.max_downtime {
            Some(most) if expected > most => refused(format!(
                "the database would be stopped for about {expected_s:.1} s, longer than the {:.1} s allowed\nhint: try again when it \
                 writes less",
                most.as_secs_f64()
            )),
            _ => Ok(()),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Everything was done before.
    #[default]
    Nothing,
    /// The plan is applied.
    Applied,
    /// The plan is undone.
    Undone,
    /// The snapshots are destroyed; the plan stays applied.
    Discarded,
}

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Outcome {
    /// What was done.
    pub action: Action,
    /// Number of files that were rewritten or moved.
    pub files: u64,
    /// Sum of their lengths in bytes.
    pub bytes: u64,
    /// The directories that moved into separate datasets, or back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relocated: Vec<PathBuf>,
    /// Whether the datasets were rolled back to their snapshots instead.
    pub rolled_back: bool,
    /// How long the database was stopped, in seconds. Missing if it was not running.
    pub downtime_s: Option<f64>,
    /// How long it was expected to be stopped.
    pub expected_downtime_s: Option<f64>,
    /// The snapshots that keep the files as they were.
    pub snapshots: Vec<String>,
}

/// The assessment and the outcome of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApplyReport {
    /// The assessment.
    pub assessment: Assessment,
    /// The outcome. Missing after a dry run.
    pub outcome: Option<Outcome>,
}

/// One dataset during a run.
struct OpenDataset {
    work: DatasetWork,
    admin: Box<dyn DatasetAdmin>,
    copies: Copies,
    /// For directories that move.
    moving: HiddenDir,
}

impl OpenDataset {
    /// Its mount point.
    fn root(&self) -> &Directory {
        self.copies.root()
    }

    /// The plan's snapshot of the dataset, if it exists.
    fn snapshot(&self, state: &JournalState) -> Result<Option<SnapshotSummary>> {
        let name = state.work.snapshot_of(&self.work.dataset);
        Ok(self.admin.snapshots(&self.work.dataset)?.into_iter().find(|snapshot| snapshot.name == name))
    }
}

/// A run on the datasets of a plan. It has the journal's lock.
pub struct Run<'a> {
    journal: Journal,
    options: Options,
    observer: &'a mut dyn RunObserver,
    outcome: Outcome,
    downtime: Downtime,
}

impl<'a> Run<'a> {
    /// A run with the journal of a plan.
    ///
    /// # Errors
    /// The host's errors.
    pub fn new(journal: Journal, options: Options, observer: &'a mut dyn RunObserver) -> Result<Run<'a>> {
        let downtime = journal.downtime()?;
        Ok(Run { journal, options, observer, outcome: Outcome::default(), downtime })
    }

    /// Applies a plan, or continues to. `work` is used if the plan is not being applied already.
    ///
    /// # Errors
    /// A refusal if the plan is being undone, if another plan has changed the datasets since, if continuing could lose data, or if this
    /// process does not see all others; an interruption; the errors of the host, the pools and the database's commands. Unless files
    /// have been replaced already, everything is as before after an error.
    /// [`Error::WithOutcome`](crate::Error::WithOutcome) describes the resulting state.
    pub fn apply(mut self, work: PlanWork) -> Result<Outcome> {
        let has_work = !work.datasets.is_empty();
        match self.journal.state().cloned() {
            Some(state) if state.is_applied() && !(state.is_discarded && has_work) => {
                if has_work {
                    return refused(format!(
                        "the plan was applied, but {} has other properties now\nhint: undo the plan, or make a new one",
                        work.datasets[0].dataset
                    ));
                }
                self.outcome.snapshots = self.existing_snapshots(&state)?;
                return Ok(self.outcome);
            }
            Some(state) if !state.is_undone() && state.direction == Direction::Undo => {
                return refused("the plan is being undone\nhint: finish that first, with `poolwright undo`");
            }
            Some(state) if !state.is_undone() && !state.is_discarded => check_writers_visible(&state.work)?,
            _ if has_work => {
                check_writers_visible(&work)?;
                self.begin(work)?;
            }
            _ => return Ok(self.outcome),
        }
        let datasets = self.open(Direction::Apply)?;
        self.check_pools(&datasets)?;
        self.convert(Direction::Apply, datasets)
    }

    /// Goes back to the state before the plan was applied, or continues to.
    ///
    /// # Errors
    /// As [`Run::apply`]; a refusal also if the snapshots were discarded.
    pub fn undo(mut self) -> Result<Outcome> {
        let Some(state) = self.journal.state().cloned() else {
            return refused("the plan was not applied on this machine");
        };
        if state.is_undone() {
            return Ok(self.outcome);
        }
        if state.is_discarded {
            return refused("the plan cannot be undone: its snapshots were discarded\nhint: make a new plan");
        }
        check_writers_visible(&state.work)?;
        if state.direction == Direction::Apply && state.phase < JournalPhase::Committing {
            let datasets = self.open(Direction::Apply)?;
            self.check_present(&state, &datasets)?;
            self.abandon()?;
            self.outcome.action = Action::Undone;
            return Ok(self.outcome);
        }
        let datasets = self.open(Direction::Undo)?;
        self.check_pools(&datasets)?;
        if state.direction == Direction::Apply {
            self.check_present(&state, &datasets)?;
            if self.roll_back(&state, &datasets)? {
                return Ok(self.outcome);
            }
            // Finishing the commit of a hard-linked file changes the times of directories.
            self.give_up_copies()?;
            self.restore_times(&state, &datasets)?;
            // After this entry, these times are not restored again.
            self.sync(&datasets)?;
            self.journal.enter(Direction::Undo, JournalPhase::Copying)?;
        } else {
            // A rollback that a crash interrupted brings back the copies that the snapshot contains.
            self.give_up_copies()?;
        }
        self.convert(Direction::Undo, datasets)
    }

    /// Destroys the snapshots of an applied plan, which frees the old blocks. The plan cannot be undone any more.
    ///
    /// # Errors
    /// A refusal if the plan is not applied, or a snapshot has clones or is held; the errors of the pools.
    pub fn discard(mut self) -> Result<Outcome> {
        let state = self.journal.state().cloned();
        let Some(state) = state.filter(JournalState::is_applied) else {
            return refused(
                "the plan is not applied\nhint: `poolwright undo` without an option removes what is left of it",
            );
        };
        let datasets = self.open(Direction::Apply)?;
        self.check_snapshots(&datasets, &state)?;
        self.journal.discard()?;
        self.destroy_snapshots(&datasets, &state)?;
        self.outcome.action = Action::Discarded;
        Ok(self.outcome)
    }

    /// Begins to apply a plan, unless another one was interrupted.
    fn begin(&mut self, work: PlanWork) -> Result<()> {
        if let Some(other) = self.journal.unfinished_other(&work)? {
            return refused(format!(
                "another plan was interrupted on the same dataset: {}\nhint: continue or undo that one first",
                quoted(&other.work.path)
            ));
        }
        self.journal.begin(work)
    }

    /// Opens the datasets, which must be mounted where they were.
    fn open(&self, direction: Direction) -> Result<Vec<OpenDataset>> {
        self.open_each(direction)?.into_iter().collect()
    }

    /// As [`Run::open`], even if some of them cannot be opened.
    fn open_each(&self, direction: Direction) -> Result<Vec<Result<OpenDataset>>> {
        let Some(state) = self.journal.state() else { return Ok(Vec::new()) };
        let mounts = mountinfo::read()?;
        let open = |(at, work): (usize, &DatasetWork)| {
            let mount = mountinfo::on(&mounts, &work.mountpoint);
            let Some(mount) = mount.filter(|mount| mount.source.to_string_lossy() == work.dataset.as_str())
            else {
                return refused(format!(
                    "{} is not mounted on {}\nhint: mount it",
                    work.dataset,
                    quoted(&work.mountpoint)
                ));
            };
            check_mounted_once(&mounts, mount)?;
            let records = self.journal.records(direction, at);
            let (name, except) = (state.work.copies_name(direction), state.work.excepted(work));
            let copies = Copies::open(open_mount(mount)?, &name, &records, except)?;
            let times = self.journal.moving_times(at);
            let moving = HiddenDir::new(open_mount(mount)?, state.work.moving_name(), &times);
            Ok(OpenDataset { work: work.clone(), admin: admin_of(mount)?, copies, moving })
        };
        Ok(state.work.datasets.iter().enumerate().map(open).collect())
    }

    fn check_pools(&self, datasets: &[OpenDataset]) -> Result<()> {
        datasets.iter().try_for_each(|of| check_healthy(&*of.admin, &of.work.dataset))
    }

    /// Makes a change and reports it.
    fn change(&mut self, admin: &dyn DatasetAdmin, change: &DatasetChange) -> Result<()> {
        self.observer.command(&change.to_string());
        Ok(admin.change(change)?)
    }

    /// Waits until everything in the datasets' pools is on disk.
    fn sync(&mut self, datasets: &[OpenDataset]) -> Result<()> {
        for of in datasets {
            // Pages that were written through a mapping.
            rustix::fs::syncfs(of.root()).map_err(cannot("sync", &of.work.mountpoint))?;
            of.sync_relocated()?;
            of.admin.change(&DatasetChange::Sync { pool: pool_of(&of.work.dataset).to_owned() })?;
        }
        Ok(())
    }

    /// The directories in which the database may have files open.
    fn roots(&self) -> Vec<PathBuf> {
        let mut roots = self.journal.state().map(|state| state.work.roots()).unwrap_or_default();
        roots.extend(self.relocated_roots());
        roots
    }
}

/// Refuses to replace files, or to roll them back, where processes that write them may not be visible.
fn check_writers_visible(work: &PlanWork) -> Result<()> {
    if work.datasets.iter().any(DatasetWork::rewrites) { Ok(check_namespace()?) } else { Ok(()) }
}
