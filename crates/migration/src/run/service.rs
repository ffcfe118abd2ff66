//! Stopping and starting the database, and what holds after an error.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use poolwright_apply::service;
use poolwright_host::mountinfo;
use poolwright_host::writers::{Writer, find_writer, find_writer_of_mounts};

use super::MigrationRun;
use crate::error::refused;
use crate::state::{MigrationPhase, MigrationState};
use crate::work::{Direction, MigrationWork};
use crate::{Error, Result};

/// Time limit for the database to end after a failed stop command, once its standby has ended.
const END_TIME: Duration = Duration::from_secs(30);

impl MigrationRun<'_> {
    /// Stops the database. Returns since when it is stopped, if it was running.
    pub(super) fn stop(&mut self) -> Result<Option<Instant>> {
        let roots = self.state().work.roots();
        let is_running = self.options.service.is_running(&roots);
        let start = Instant::now();
        // Before the command: after a crash, the database is started again.
        let is_stopped = self.state().is_stopped || (is_running && self.options.service.is_known());
        self.enter(|state| MigrationState { phase: MigrationPhase::Stopped, is_stopped, ..state })?;
        if !is_running {
            return Ok(None);
        }
        let stopped = self.options.stop_service(self.observer, &roots);
        self.is_stop_failed = stopped.is_err();
        stopped?;
        Ok(Some(start))
    }

    /// Refuses if a process has opened a file for writing although the database is stopped.
    pub(super) fn check_unused(&self) -> Result<()> {
        match writer(&self.state().work) {
            Some(writer) => refused(service::describe(&writer)),
            None => Ok(()),
        }
    }

    /// Starts the database if this run or an interrupted one has stopped it.
    pub(super) fn start_if_stopped(&mut self) -> Result<()> {
        let MigrationState { work, is_stopped, .. } = self.state();
        if !is_stopped {
            return Ok(());
        }
        if self.is_stop_failed && self.is_still_running(&work) {
            // The next run starts it, if it ends.
            let what =
                "the database was told to stop, and still runs; if it ends, start it, or run this again";
            self.observer.note(what);
            return Ok(());
        }
        self.options.start_service(self.observer, || writer(&work))?;
        self.enter(|state| MigrationState { is_stopped: false, ..state })
    }

    /// Whether the database still runs after a while. It may be about to end: that of a standby waits for it.
    fn is_still_running(&self, work: &MigrationWork) -> bool {
        let end = Instant::now() + if self.is_standby { END_TIME } else { Duration::ZERO };
        while writer(work).is_some() {
            if Instant::now() >= end {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }

    /// Starts the database after an error, if the datasets are in their places, and says what holds.
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

/// A process that has a file of the database open for writing: by its file system where a dataset is mounted, elsewhere by its path.
fn writer(work: &MigrationWork) -> Option<Writer> {
    let mounts = mountinfo::read().unwrap_or_default();
    let (mounted, others): (Vec<PathBuf>, Vec<PathBuf>) =
        work.roots().into_iter().partition(|root| mountinfo::on(&mounts, root).is_some());
    find_writer_of_mounts(&mounted).or_else(|| find_writer(&others))
}
