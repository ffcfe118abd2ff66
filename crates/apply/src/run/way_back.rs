//! Returning to the previous state: after an error, by a rollback, and by abandoning a run.

use std::io::ErrorKind;

use poolwright_base::cannot;
use poolwright_base::read_only::ReadOnly;
use poolwright_zfs::kernel::DatasetChange;

use super::conversion::{changes, digest, relocated_scans, scan_all};
use super::relocate::relocations;
use super::{Action, OpenDataset, Run};
use crate::error::{Errors, refused};
use crate::journal::{JournalPhase, JournalState};
use crate::observer::Stage;
use crate::rewrite::directories;
use crate::work::Direction;
use crate::{Error, Result};
use poolwright_zfs::datasets::SnapshotSummary;

impl Run<'_> {
    /// The journal's state. A run has begun, so there is one.
    pub(super) fn state(&self) -> JournalState {
        self.journal.state().expect("the run has begun").clone()
    }

    /// Makes the best of an error: the database runs again, and unless files have been replaced, everything is as before.
    pub(super) fn recover(&mut self, direction: Direction, error: Error) -> Error {
        let state = self.state();
        let again = match direction {
            Direction::Apply => {
                "run the same command again to continue, or `poolwright undo` to restore the previous state"
            }
            Direction::Undo => "run the same command again to continue",
        };
        if direction == Direction::Apply
            && state.phase < JournalPhase::Committing
            && !matches!(error, Error::Interrupted)
        {
            return match self.abandon() {
                Ok(()) => error.with_outcome("everything is as before"),
                Err(second) => error.with_outcome(format!(
                    "not everything could be restored: {second}\nhint: run `poolwright undo` to try again"
                )),
            };
        }
        let restarted = self.start_if_stopped();
        let outcome = match (state.phase < JournalPhase::Committing, restarted) {
            (true, Ok(())) => format!("no file was replaced; the copies so far are kept\nhint: {again}"),
            (false, Ok(())) => format!("some files were replaced, with the same content\nhint: {again}"),
            (_, Err(second)) => format!("{second}\nhint: start the database; {again}"),
        };
        error.with_outcome(outcome)
    }

    /// Gives up a plan none of whose copies was renamed: removes the copies, restores the properties and starts the database.
    pub(super) fn abandon(&mut self) -> Result<()> {
        let mut errors = Errors::default();
        self.restore(&mut errors);
        // In any case: the database must not stay stopped.
        errors.keep(self.start_if_stopped());
        errors.into_result()?;
        self.journal.enter(Direction::Undo, JournalPhase::Done)
    }

    /// Restores everything that can be restored.
    fn restore(&mut self, errors: &mut Errors) {
        let Some(opened) = errors.keep(self.open_each(Direction::Apply)) else { return };
        let datasets: Vec<_> = opened.into_iter().filter_map(|of| errors.keep(of)).collect();
        for of in &datasets {
            errors.keep(of.copies.remove_dir());
            errors.keep(of.moving.remove());
        }
        self.observer.stage(Stage::Properties);
        for (of, change) in changes(Direction::Undo, &datasets) {
            errors.keep(self.set_property(Direction::Undo, of, change));
        }
        let state = self.state();
        for of in datasets.chunks(1) {
            errors.keep(self.destroy_snapshots(of, &state));
        }
        for (of, relocation) in relocations(&datasets) {
            errors.keep(self.destroy_dataset(of, relocation));
        }
        for of in datasets.chunks(1) {
            // The journal must not be ahead of the pool.
            errors.keep(self.sync(of));
        }
    }

    /// Refuses to undo if properties were changed since the plan was applied: undoing would overwrite that.
    pub(super) fn check_present(&self, state: &JournalState, datasets: &[OpenDataset]) -> Result<()> {
        for of in datasets {
            for change in &of.work.changes {
                let present = of.admin.properties(&change.dataset)?.remove(&change.property);
                // An interrupted run may have set it or not.
                let is_before = !state.is_applied() && change.is_done(Direction::Undo, present.as_ref());
                if !is_before && !change.is_done(Direction::Apply, present.as_ref()) {
                    let value = present.map_or_else(|| "missing".to_owned(), |of| of.value);
                    return refused(format!(
                        "{} of {} is {value}, but the plan set {}: it was changed since\nhint: undo the later change first, or set \
                         it to {} again",
                        change.property, change.dataset, change.value, change.value
                    ));
                }
            }
        }
        Ok(())
    }

    /// Removes the copies of an interrupted run, after all names of each file have the same version.
    pub(super) fn give_up_copies(&self) -> Result<()> {
        for mut of in self.open(Direction::Apply)? {
            of.copies.give_up()?;
            of.moving.remove()?;
        }
        Ok(())
    }

    /// Restores the times of directories in which an interrupted run has renamed files.
    pub(super) fn restore_times(&self, state: &JournalState, datasets: &[OpenDataset]) -> Result<()> {
        for (at, of) in datasets.iter().enumerate().filter(|_| state.phase == JournalPhase::Committing) {
            of.copies.restore_times(&directories::load(&self.journal.directories(Direction::Apply, at))?)?;
        }
        Ok(())
    }

    /// Rolls the datasets back to their snapshots, if nothing was written since the plan was applied. From before the comparison until the
    /// datasets are rolled back, the kernel lets nothing write to them. Returns whether it was done.
    pub(super) fn roll_back(&mut self, state: &JournalState, datasets: &[OpenDataset]) -> Result<bool> {
        if state.committed.is_none() || self.options.service.is_running(&self.roots())? {
            return Ok(false);
        }
        let mut snapshots = Vec::new();
        for of in datasets.iter().filter(|of| of.work.rewrites()) {
            let name = state.work.snapshot_of(&of.work.dataset);
            // A later snapshot would have to be destroyed.
            if of.admin.snapshots(&of.work.dataset)?.last().is_none_or(|last| last.name != name) {
                return Ok(false);
            }
            snapshots.push((of, name));
        }
        let held = ReadOnly::of(&state.work.roots());
        // Nothing may be written to the directories that have moved until their datasets are destroyed.
        let (held, _moved) = match held.and_then(|held| Ok((held, ReadOnly::of(&self.relocated_roots())?))) {
            Ok(both) => both,
            Err(cause) => {
                self.observer
                    .note(&format!("files are rewritten, not rolled back: {}", why_writable(&cause)));
                return Ok(false);
            }
        };
        self.observer.stage(Stage::Compare);
        let (files, moved) = (scan_all(datasets)?, relocated_scans(datasets)?);
        if state.committed != Some(digest(files.iter().chain(&moved))) {
            return Ok(false);
        }
        self.observer.stage(Stage::RollBack);
        self.journal.enter(Direction::Undo, JournalPhase::Copying)?;
        for (of, name) in snapshots {
            self.change(&*of.admin, &DatasetChange::Rollback { name })?;
        }
        held.end().map_err(cannot("make writable", &state.work.directory))?;
        // The snapshots contain the copies that were made before them.
        for of in self.open(Direction::Apply)? {
            of.copies.remove_dir()?;
        }
        self.set_properties(Direction::Undo, datasets)?;
        self.destroy_snapshots(datasets, state)?;
        self.destroy_relocated(datasets)?;
        self.start_if_stopped()?;
        self.journal.enter(Direction::Undo, JournalPhase::Done)?;
        (self.outcome.action, self.outcome.rolled_back) = (Action::Undone, true);
        Ok(true)
    }

    /// Refuses if a snapshot of the plan cannot be destroyed.
    pub(super) fn check_snapshots(&self, datasets: &[OpenDataset], state: &JournalState) -> Result<()> {
        for of in datasets {
            let Some(snapshot) = of.snapshot(state)? else { continue };
            let name = &snapshot.name;
            if let Some(clone) = snapshot.clones.first() {
                return refused(format!(
                    "{name} has a clone: {clone}\nhint: destroy or promote the clone first"
                ));
            }
            if snapshot.holds > 0 {
                return refused(format!("{name} is held\nhint: `zfs holds {name}` shows by whom"));
            }
        }
        Ok(())
    }

    /// Destroys the plan's snapshots. One that has clones or is held stays.
    pub(super) fn destroy_snapshots(&mut self, datasets: &[OpenDataset], state: &JournalState) -> Result<()> {
        for of in datasets {
            let Some(SnapshotSummary { name, clones, holds }) = of.snapshot(state)? else { continue };
            if !clones.is_empty() || holds > 0 {
                self.observer.note(&format!("{name} stays: it has clones or is held"));
                continue;
            }
            self.change(&*of.admin, &DatasetChange::DestroySnapshot { name })?;
        }
        Ok(())
    }

    /// The plan's snapshots that exist.
    pub(super) fn existing_snapshots(&self, state: &JournalState) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for of in self.open(Direction::Apply)? {
            names.extend(of.snapshot(state)?.map(|snapshot| snapshot.name));
        }
        Ok(names)
    }
}

/// Why a dataset could not be made read-only.
fn why_writable(cause: &std::io::Error) -> String {
    match cause.kind() {
        ErrorKind::ResourceBusy => "a program has a file open for writing, or a removed file open".to_owned(),
        ErrorKind::PermissionDenied => "only root can make the datasets read-only meanwhile".to_owned(),
        _ => format!("the datasets cannot be made read-only meanwhile: {cause}"),
    }
}
