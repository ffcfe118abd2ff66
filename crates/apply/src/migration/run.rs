//! Moves the datasets to the new pool, and back.

mod copying;
mod replicating;
mod service;
mod switching;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use poolwright_base::quoted;
use poolwright_dbms::service::{Downtime, check_namespace};
use poolwright_zfs::datasets::pool_of;
use poolwright_zfs::kernel::DatasetChange;
use schemars::JsonSchema;
use serde::Serialize;

use crate::assessment::check_healthy;
use crate::error::refused;
use crate::migration::assessment::MigrationAssessment;
use crate::migration::mounting::{PlacedDataset, remove_dir};
use crate::migration::standby::{SpaceReserve, Standby};
use crate::migration::state::{MigrationPhase, MigrationState, SideDigests, StateFile};
use crate::migration::work::{DatasetMove, Direction, MigrationWork};
use crate::rewrite::{FileScan, open_trusted};
use crate::run::Options;
use crate::{Result, RunObserver};

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct MigrationOutcome {
    /// Whether the database is on the new pool.
    pub moved: bool,
    /// Number of files that were copied and compared.
    pub files: u64,
    /// Sum of their lengths in bytes.
    pub bytes: u64,
    /// Whether nothing was written since the database moved, so that going back copied nothing.
    pub unchanged: bool,
    /// Whether a standby server has replaced the database's server. Only files that do not belong to the server were copied.
    pub standby: bool,
    /// How long the database was stopped, in seconds. Missing if it was not running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downtime_s: Option<f64>,
    /// How long it was expected to be stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_downtime_s: Option<f64>,
    /// The datasets that the database is not on any more. They are not mounted.
    pub unused: Vec<String>,
    /// Snapshots of the datasets that the database was on, as they were when it moved. They are kept after it has moved back from a standby,
    /// whose files were not compared with those of the datasets.
    pub kept_snapshots: Vec<String>,
}

/// The assessment and the outcome of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MigrationReport {
    /// The assessment. Missing if a run is continued or undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assessment: Option<MigrationAssessment>,
    /// The outcome. Missing after a dry run.
    pub outcome: Option<MigrationOutcome>,
}

/// A run. The caller has the lock of the plan's journal.
pub struct MigrationRun<'a> {
    file: StateFile,
    options: Options,
    observer: &'a mut dyn RunObserver,
    outcome: MigrationOutcome,
    /// Whether the database moves by a standby server.
    is_standby: bool,
    /// Paths on the new datasets that are not copied, because the standby has them itself.
    except: BTreeSet<PathBuf>,
    /// Free space that is left in the pool of the database.
    reserve: Option<SpaceReserve>,
    downtime: Downtime,
}

impl<'a> MigrationRun<'a> {
    /// A run with the state of a plan's migration. `downtime` is that of the plan's journal, with the note
    /// [`RESTARTED`](crate::migration::state::RESTARTED).
    pub fn new(
        file: StateFile,
        downtime: Downtime,
        options: Options,
        observer: &'a mut dyn RunObserver,
    ) -> MigrationRun<'a> {
        let downtime = downtime.with_unmask_note(file.unmask_note());
        MigrationRun {
            file,
            options,
            observer,
            outcome: MigrationOutcome::default(),
            is_standby: false,
            except: BTreeSet::new(),
            reserve: None,
            downtime,
        }
    }

    /// Moves a PostgreSQL database to the new pool with a standby server that replaces the primary, instead of copying files.
    #[must_use]
    pub fn by_standby(self) -> MigrationRun<'a> {
        MigrationRun { is_standby: true, ..self }
    }

    /// Moves the database to the new pool, or continues to. `work` is used if the plan's database is not being moved already.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is being moved back, or continuing could lose data; the errors of the host, the pools and the database's
    /// commands. [`Error::WithOutcome`] describes the resulting state.
    pub fn execute(mut self, work: Option<MigrationWork>) -> Result<MigrationOutcome> {
        check_namespace()?;
        match (self.file.state(), work) {
            (Some(state), _) if state.has_moved() => {
                self.outcome.moved = true;
                self.outcome.unused = state.work.moves.iter().map(|of| of.source.clone()).collect();
                return Ok(self.outcome);
            }
            (Some(state), _) if !state.is_undone() && state.direction == Direction::Back => {
                return refused(
                    "the database is being moved back\nhint: finish that first, with `poolwright undo`",
                );
            }
            (Some(state), _) if !state.is_undone() => {}
            (_, Some(work)) => {
                check_none_kept(&work)?;
                self.file.write(MigrationState::new(work))?;
            }
            (_, None) => return refused("no run to continue"),
        }
        self.check_identities()?;
        if self.state().standby && !self.is_standby && self.phase() < MigrationPhase::Switching {
            return refused(
                "the run was begun with a standby server\nhint: continue it with a standby server, or abandon it with `poolwright undo`",
            );
        }
        self.convert(Direction::Forth)
    }

    /// Moves the database back to its former datasets, or abandons the move.
    ///
    /// # Errors
    /// As [`MigrationRun::execute`]; also [`Error::Refused`] if the database was never moved.
    pub fn undo(mut self) -> Result<MigrationOutcome> {
        let Some(state) = self.file.state().cloned() else {
            return refused("the database was not moved to another pool");
        };
        if state.is_undone() {
            return Ok(self.outcome);
        }
        check_namespace()?;
        self.check_identities()?;
        if state.direction == Direction::Forth {
            if self.phase() == MigrationPhase::Switching {
                // All datasets have the same files. The one way to know where they are mounted is to finish.
                self.continue_switch(Direction::Forth)?;
            }
            if self.phase() < MigrationPhase::Switching {
                self.give_up()?;
                return Ok(self.outcome);
            }
            let phase = MigrationPhase::Copying;
            self.enter(|state| MigrationState { direction: Direction::Back, phase, copied: None, ..state })?;
        }
        self.convert(Direction::Back)
    }

    fn convert(mut self, direction: Direction) -> Result<MigrationOutcome> {
        match self.run(direction) {
            Ok(()) => Ok(self.outcome),
            Err(error) => Err(self.recover(direction, error)),
        }
    }

    fn run(&mut self, direction: Direction) -> Result<()> {
        if self.phase() == MigrationPhase::Switching {
            self.continue_switch(direction)?;
        }
        let mut since = None;
        if self.phase() < MigrationPhase::Switching {
            since = self.copy(direction)?;
            self.switch(direction)?;
        }
        self.start_if_stopped()?;
        self.outcome.downtime_s = since.map(|since| since.elapsed().as_secs_f64());
        self.clear(direction)
    }

    /// Makes the other datasets equal to those that the database is on, stops the database, and unmounts all. Returns since when it is
    /// stopped, if it was running.
    fn copy(&mut self, direction: Direction) -> Result<Option<Instant>> {
        self.check_pools()?;
        let since = match self.is_standby && direction == Direction::Forth {
            true => self.replicate()?,
            false => self.copy_files(direction)?,
        };
        let digests = self.digests(direction)?;
        if !self.outcome.unchanged {
            self.check_unwritten(direction, &digests)?;
        }
        let before_switch = Some(digests).filter(|_| direction == Direction::Forth);
        self.check_unused()?;
        self.check_below(direction)?;
        // On empty directories, it would make a new database, or not start.
        self.downtime.leave_stopped();
        self.unmount_all(direction)?;
        // A dataset that is mounted would be mounted anew when this is taken back.
        self.hold_back(direction)?;
        self.enter(|state| MigrationState { phase: MigrationPhase::Switching, before_switch, ..state })?;
        Ok(since)
    }

    /// Copies all files, stops the database, and copies what it has changed.
    fn copy_files(&mut self, direction: Direction) -> Result<Option<Instant>> {
        self.prepare(direction)?;
        self.check_below(direction)?;
        if self.options.online && self.options.service.is_running(&self.state().work.roots())? {
            self.copy_online(direction)?;
        }
        let since = self.stop()?;
        self.check_unused()?;
        if direction == Direction::Back && since.is_none() && self.is_unchanged()? {
            self.outcome.unchanged = true;
        } else {
            self.copy_stopped(direction)?;
        }
        Ok(since)
    }

    /// Removes what is not needed any more.
    fn clear(&mut self, direction: Direction) -> Result<()> {
        self.remove_snapshots()?;
        if direction == Direction::Back {
            self.destroy_targets()?;
        }
        self.remove_staging()?;
        self.outcome.moved = direction == Direction::Forth;
        if self.outcome.moved {
            self.outcome.unused = self.state().work.moves.into_iter().map(|of| of.source).collect();
        }
        self.enter(|state| MigrationState { phase: MigrationPhase::Done, ..state })
    }

    /// Removes everything that was made in the new pool, and starts the database.
    fn give_up(&mut self) -> Result<()> {
        // Nothing that the database needs waits for these processes.
        let ended = Standby::end_others(&self.state().work);
        let mut is_mounted = true;
        for of in &self.state().work.moves {
            is_mounted &= PlacedDataset::open(&of.source)?.is_on(&of.mountpoint)?;
        }
        if !is_mounted {
            self.ensure_stopped()?;
        }
        self.mount_places(Direction::Forth)?;
        self.start_if_stopped()?;
        ended?;
        self.enter(|state| MigrationState {
            direction: Direction::Back,
            phase: MigrationPhase::Switched,
            ..state
        })?;
        self.clear(Direction::Back)
    }

    /// Whether nothing was written on either side since the database moved.
    fn is_unchanged(&mut self) -> Result<bool> {
        let before = self.state().before_switch;
        Ok(before.is_some() && before == Some(self.digests(Direction::Back)?))
    }

    /// The state of all files: those at their final paths, and those in the staging directory.
    fn digests(&self, direction: Direction) -> Result<SideDigests> {
        let placed = self.digest(|of| of.mountpoint.clone())?;
        let staged = self.digest(|of| of.staging.clone())?;
        Ok(match direction {
            Direction::Forth => SideDigests { source: placed, target: staged },
            Direction::Back => SideDigests { source: staged, target: placed },
        })
    }

    /// The state of all files of the datasets, which are below these directories.
    fn digest(&self, root: impl Fn(&DatasetMove) -> PathBuf) -> Result<String> {
        let work = self.state().work;
        let digest = |of: &DatasetMove| {
            let root = root(of);
            // Where other datasets are mounted, only some of these directories show it.
            let inner =
                work.moves.iter().filter_map(|other| other.mountpoint.strip_prefix(&of.mountpoint).ok());
            let except: Vec<PathBuf> =
                inner.filter(|path| !path.as_os_str().is_empty()).map(|path| root.join(path)).collect();
            Ok(FileScan::of(&open_trusted(&root)?, &except)?.digest_below(&root))
        };
        let digests: Result<Vec<String>> = work.moves.iter().map(digest).collect();
        Ok(digests?.join(" "))
    }

    fn state(&self) -> MigrationState {
        self.file.state().cloned().expect("a run has a state")
    }

    fn phase(&self) -> MigrationPhase {
        self.state().phase
    }

    /// Writes the next state.
    fn enter(&mut self, next: impl FnOnce(MigrationState) -> MigrationState) -> Result<()> {
        let next = next(self.state());
        self.file.write(next)
    }

    /// Refuses datasets that have the names of those of this migration, but are other ones.
    fn check_identities(&self) -> Result<()> {
        let MigrationState { work, direction, phase, .. } = self.state();
        // After the database was moved back, the datasets of the new pool are destroyed one by one.
        let is_needed = match direction {
            Direction::Forth => phase >= MigrationPhase::Switching,
            Direction::Back => phase < MigrationPhase::Switched,
        };
        for of in &work.moves {
            let source = PlacedDataset::open(&of.source)?;
            let target = PlacedDataset::open(&of.target)?;
            if source.engine != work.engine || target.engine != work.engine {
                let pools = [&of.source, &of.target].map(|name| pool_of(name)).join(" or ");
                return refused(format!(
                    "the pool {pools} is not mounted or imported\nhint: import it, or mount it"
                ));
            }
            if !source.exists()? || source.guid()? != of.source_guid {
                return refused(format!("{} does not exist any more, or is another dataset", of.source));
            }
            if target.exists()? {
                self.check_own(of, &target)?;
            } else if is_needed {
                return refused(format!(
                    "{}, to which the database was moved, does not exist any more\nhint: to use the datasets that it was on before, as they \
                     were when it was moved: {}",
                    of.target,
                    commands_back(&work)
                ));
            }
        }
        Ok(())
    }

    fn check_pools(&self) -> Result<()> {
        for of in &self.state().work.moves {
            for name in [&of.source, &of.target] {
                check_healthy(&*PlacedDataset::open(name)?.admin, name)?;
            }
        }
        Ok(())
    }

    /// Destroys the datasets of the new pool, the inner ones first. One with snapshots stays.
    fn destroy_targets(&mut self) -> Result<()> {
        for of in self.state().work.moves.iter().rev() {
            self.destroy_unnamed(of)?;
            let placed = PlacedDataset::open(&of.target)?;
            if !placed.exists()? {
                continue;
            }
            self.check_own(of, &placed)?;
            placed.unmount(self.observer)?;
            if !placed.admin.snapshots(&of.target)?.is_empty() || placed.admin.tree(&of.target)?.len() != 1 {
                self.observer.note(&format!("{} stays: it has snapshots or datasets below it", of.target));
                continue;
            }
            placed.change(&DatasetChange::DestroyLeaf { dataset: of.target.clone() }, self.observer)?;
        }
        Ok(())
    }

    fn remove_staging(&mut self) -> Result<()> {
        let work = self.state().work;
        for of in &work.moves {
            remove_dir(&of.staging)?;
        }
        remove_dir(&work.staging)
    }
}

/// Refuses to move a database again while snapshots from its last return are kept: they would be taken for those of the next one.
fn check_none_kept(work: &MigrationWork) -> Result<()> {
    for of in &work.moves {
        let name = format!("{}@{}", of.source, work.before_return());
        if PlacedDataset::open(&of.source)?.admin.snapshots(&of.source)?.iter().any(|of| of.name == name) {
            return refused(format!(
                "{name} is kept since the database moved back\nhint: destroy it once you have checked the database"
            ));
        }
    }
    Ok(())
}

/// The commands that mount the datasets that a database was on where they were.
fn commands_back(work: &MigrationWork) -> String {
    let command = |of: &DatasetMove| {
        let point = quoted(&of.mountpoint);
        format!("zfs set canmount=on mountpoint={point} {}; zfs mount {}", of.source, of.source)
    };
    work.moves.iter().map(command).collect::<Vec<_>>().join("; ")
}

/// The message about a file that cannot be copied.
fn not_copied(skipped: &[PathBuf]) -> Option<String> {
    let first = skipped.first()?;
    let others = if skipped.len() > 1 { " and others" } else { "" };
    Some(format!("not copied: {}{others} (a socket, a fifo or a device node)", quoted(first)))
}
