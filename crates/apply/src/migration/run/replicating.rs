//! The steps that replace the server with a standby.

use std::cell::RefCell;
use std::time::Instant;

use poolwright_base::units::format_size;

use super::MigrationRun;
use crate::error::refused;
use crate::migration::mounting::PlacedDataset;
use crate::migration::standby::Standby;
use crate::migration::state::MigrationState;
use crate::migration::work::Direction;
use crate::{Result, Stage};

/// Bytes of the log that are copied while the server is stopped, because it has not archived them.
const MAX_UNARCHIVED: u64 = 1 << 30;

impl MigrationRun<'_> {
    /// Builds a standby on the new datasets, waits until it has caught up, stops the database, and makes both equal. Returns since when the
    /// database is stopped.
    pub(super) fn replicate(&mut self) -> Result<Option<Instant>> {
        self.mount_places(Direction::Forth)?;
        // An interrupted run may have stopped it.
        self.start_if_stopped()?;
        let work = self.state().work;
        Standby::end_others(&work)?;
        let mut standby = Standby::prepare(&work, &|| self.observer.is_interrupted())?;
        self.begin_with_empty_datasets()?;
        standby.build(self.options.rate, &RefCell::new(&mut *self.observer))?;
        self.except = standby.own(true)?;
        self.reserve = Some(standby.reserve());
        self.copy_running(self.options.rate)?;
        self.observer.stage(Stage::CatchUp);
        standby.start(&|| self.observer.is_interrupted())?;
        standby.catch_up(&|| self.observer.is_interrupted())?;
        standby.flush(&|| self.observer.is_interrupted())?;
        // While the database is stopped, both servers write what has changed since, all files are listed, and those that are not the server's
        // own are copied if they have changed.
        let start = Instant::now();
        self.copy_running(None)?;
        // One of the listings is of the snapshot.
        self.digests(Direction::Forth)?;
        self.digest(|of| of.mountpoint.clone())?;
        self.observer.stage(Stage::CatchUp);
        standby.flush(&|| self.observer.is_interrupted())?;
        let expected = start.elapsed();
        self.outcome.expected_downtime_s = Some(expected.as_secs_f64());
        self.options.announce_downtime(expected, self.observer)?;
        standby.check_again(&|| self.observer.is_interrupted())?;
        let unarchived = standby.unarchived_bytes()?;
        if unarchived > MAX_UNARCHIVED {
            return refused(format!(
                "the server has not archived {} of its log yet, which would be copied while it is stopped\nhint: let archive_command catch up",
                format_size(unarchived)
            ));
        }
        let since = self.stop()?;
        self.check_unused()?;
        self.observer.stage(Stage::CatchUp);
        standby.finish(&|| self.observer.is_interrupted())?;
        self.except = standby.own(false)?;
        self.copy_stopped(Direction::Forth)?;
        let unarchived = standby.take_over(&|| self.observer.is_interrupted())?;
        drop(standby);
        if unarchived > 0 {
            let what =
                "segments of the log were not archived yet; the server will archive them on the new pool";
            self.observer.note(&format!("{unarchived} {what}"));
        }
        self.sync(Direction::Forth)?;
        self.outcome.standby = true;
        Ok(since)
    }

    /// Copies everything that is not the server's own while the standby runs. A file can be changed in the standby's directory meanwhile, by an
    /// extension for example, so an error counts when it comes twice.
    fn copy_running(&mut self, rate: Option<u64>) -> Result<()> {
        match self.copy_round(Direction::Forth, Stage::Copy, rate) {
            Err(error) if !error.is_refusal() && !self.observer.is_interrupted() => {
                self.observer.note(&format!("copying once more: {error}"));
                self.copy_round(Direction::Forth, Stage::Copy, rate).map(drop)
            }
            copied => copied.map(drop),
        }
    }

    /// Creates the new datasets again: they may have files from an interrupted run.
    fn begin_with_empty_datasets(&mut self) -> Result<()> {
        self.enter(|state| MigrationState { copied: None, standby: true, ..state })?;
        // They would keep what the database overwrites.
        self.remove_slots()?;
        self.destroy_targets()?;
        for of in self.state().work.moves {
            let target = &of.target;
            if PlacedDataset::open(target)?.exists()? {
                return refused(format!(
                    "{target} has files of an earlier run\nhint: destroy it (zfs destroy -r {target})"
                ));
            }
        }
        self.prepare(Direction::Forth)?;
        self.check_below(Direction::Forth)
    }
}
