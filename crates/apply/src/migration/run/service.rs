//! Stops and starts the database, and reports the state after an error.

use std::path::PathBuf;
use std::time::Instant;

use poolwright_base::mountinfo;
use poolwright_base::writers::{Writer, find_writers, find_writers_of_mounts};
use poolwright_dbms::service::{self, Service};

use super::MigrationRun;
use crate::error::refused;
use crate::migration::state::{MigrationPhase, MigrationState};
use crate::migration::work::{Direction, MigrationWork};
use crate::{Error, Result, Stage};

impl MigrationRun<'_> {
    /// Stops the database. Returns since when it is stopped, if it was running.
    pub(super) fn stop(&mut self) -> Result<Option<Instant>> {
        if self.observer.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let roots = self.state().work.roots();
        let is_running = self.options.service.is_running(&roots)?;
        let start = Instant::now();
        // Before the command: after a crash, the database is started again.
        let is_stopped = self.state().is_stopped || (is_running && self.options.service.is_known());
        let phase = MigrationPhase::Stopped;
        let mut masked_units = self.state().masked_units;
        // A unit that an interrupted run has masked, and that runs, was unmasked.
        masked_units.retain(|unit| !(is_running && self.is_of_service(unit)));
        self.enter(|state| MigrationState { phase, is_stopped, masked_units, ..state })?;
        if !is_running {
            self.keep_stopped()?;
            return Ok(None);
        }
        self.observer.stage(Stage::Stop);
        let masked = self.downtime.stop_and_mask(&self.options.service, self.observer)?;
        self.add_masked(masked)?;
        self.downtime.wait_until_unused(&self.options.service, self.observer, &roots)?;
        Ok(Some(start))
    }

    /// Keeps systemd from starting a database that does not run until [`MigrationRun::start_if_stopped`], and refuses if anything may write its
    /// files.
    pub(super) fn keep_stopped(&mut self) -> Result<()> {
        let masked = self.downtime.keep_stopped(&self.options.service, self.observer)?;
        self.add_masked(masked)?;
        self.check_unused()
    }

    /// Records that a unit was masked: another run, which may be started without the unit's name, has to unmask it.
    fn add_masked(&mut self, unit: Option<String>) -> Result<()> {
        let Some(unit) = unit else { return Ok(()) };
        self.enter(|mut state| {
            if !state.masked_units.contains(&unit) {
                state.masked_units.push(unit);
            }
            state
        })
    }

    fn is_of_service(&self, unit: &str) -> bool {
        matches!(&self.options.service, Service::Unit(own) if own == unit)
    }

    /// Before the datasets are mounted where an interrupted run has unmounted them: refuses if the database runs, and keeps systemd from starting
    /// it, even if this process is killed. A restart of the host removes the mask of the unit.
    pub(super) fn ensure_stopped(&mut self) -> Result<()> {
        self.check_unused()?;
        if self.options.service.is_running(&[])? {
            return refused("the database is running, perhaps on an empty directory\nhint: stop it");
        }
        self.keep_stopped()?;
        self.downtime.leave_stopped();
        Ok(())
    }

    /// Refuses if anything may write files although the database is stopped.
    pub(super) fn check_unused(&self) -> Result<()> {
        let service = &self.options.service;
        let (mounted, others) = split_roots(&self.state().work);
        service::check_unused(service, &mounted)?;
        Ok(service::FileUsers::below(&others).check(service)?)
    }

    /// Unmasks what this run or an interrupted one has masked, and starts the database if it has stopped it. One that was not running can be
    /// started again.
    pub(super) fn start_if_stopped(&mut self) -> Result<()> {
        let MigrationState { work, is_stopped, masked_units, .. } = self.state();
        // The start of a unit unmasks it.
        let others = masked_units.iter().filter(|unit| !(is_stopped && self.is_of_service(unit)));
        others.for_each(|unit| self.downtime.release(unit));
        if is_stopped {
            self.observer.stage(Stage::Start);
            if self.downtime.start(&self.options.service, self.observer, &|| writers(&work))? {
                self.enter(|state| MigrationState { is_stopped: false, ..state })?;
            }
        } else {
            self.downtime.leave_stopped();
        }
        if masked_units.is_empty() {
            return Ok(());
        }
        self.enter(|state| MigrationState { masked_units: Vec::new(), ..state })
    }

    /// Starts the database after an error, if the datasets are mounted on their mount points, and adds the resulting state to the error.
    pub(super) fn recover(&mut self, direction: Direction, error: Error) -> Error {
        let (command, pool) = match direction {
            Direction::Forth => ("apply", "the new pool"),
            Direction::Back => ("undo", "the datasets that it was on before"),
        };
        match self.phase() {
            MigrationPhase::Switching => {
                return error.with_outcome(format!(
                    "all files are copied and compared; the datasets may be between their places, and the database may be stopped\nhint: \
                     run `poolwright {command}` again; it continues. Do not start the database before"
                ));
            }
            MigrationPhase::Switched | MigrationPhase::Done => {
                return error.with_outcome(format!(
                    "the database's files are on {pool}\nhint: run `poolwright {command}` again; it continues"
                ));
            }
            MigrationPhase::Copying | MigrationPhase::Stopped => {}
        }
        let mut restarted = self.mount_places(direction).and_then(|()| self.start_if_stopped());
        if self.state().standby && direction == Direction::Forth {
            // The next run begins again. They would keep what the database overwrites.
            restarted = restarted.and(self.remove_slots());
        }
        let phase = MigrationPhase::Copying;
        let restarted = restarted.and_then(|()| self.enter(|state| MigrationState { phase, ..state }));
        let hint = match direction {
            Direction::Forth => {
                "run `poolwright apply` again to continue, or `poolwright undo` to remove the copies"
            }
            Direction::Back => "run `poolwright undo` again to continue",
        };
        match restarted {
            Ok(()) => {
                error.with_outcome(format!("the database is on the datasets that it was on\nhint: {hint}"))
            }
            Err(other) => {
                error.with_outcome(format!("the database could not be started again: {other}\nhint: {hint}"))
            }
        }
    }
}

/// The processes that have a file of the database open for writing: by its file system where a dataset is mounted, elsewhere by its path.
fn writers(work: &MigrationWork) -> Vec<Writer> {
    let (mounted, others) = split_roots(work);
    let mut writers = find_writers_of_mounts(&mounted);
    writers.extend(find_writers(&others));
    writers
}

/// The directories of the database on which a dataset is mounted, and the others.
fn split_roots(work: &MigrationWork) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mounts = mountinfo::read().unwrap_or_default();
    work.roots().into_iter().partition(|root| mountinfo::on(&mounts, root).is_some())
}
