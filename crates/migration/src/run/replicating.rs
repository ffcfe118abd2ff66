//! The steps that let a standby server take the database's place.

use std::cell::RefCell;
use std::time::Instant;

use poolwright_apply::Stage;

use super::MigrationRun;
use crate::Result;
use crate::standby::Standby;
use crate::state::MigrationState;
use crate::work::Direction;

impl MigrationRun<'_> {
    /// Builds a standby on the new datasets, waits until it has caught up, stops the database, and makes both equal. Returns since when the
    /// database is stopped.
    pub(super) fn replicate(&mut self) -> Result<Option<Instant>> {
        self.mount_places(Direction::Forth)?;
        // An interrupted run may have stopped it.
        self.start_if_stopped()?;
        let work = self.state().work;
        let mut standby = Standby::prepare(&work, &|| self.observer.is_interrupted())?;
        // The datasets may have files from an interrupted run.
        self.enter(|state| MigrationState { copied: None, ..state })?;
        self.destroy_targets()?;
        self.prepare(Direction::Forth)?;
        self.check_below(Direction::Forth)?;
        standby.build(self.options.rate, &RefCell::new(&mut *self.observer))?;
        self.observer.stage(Stage::CatchUp);
        standby.start(&|| self.observer.is_interrupted())?;
        standby.catch_up(&|| self.observer.is_interrupted())?;
        standby.flush(&|| self.observer.is_interrupted())?;
        // While the database is stopped, both servers write what has changed since, and all files are listed.
        let start = Instant::now();
        self.digests(Direction::Forth)?;
        standby.flush(&|| self.observer.is_interrupted())?;
        let expected = start.elapsed();
        self.outcome.expected_downtime_s = Some(expected.as_secs_f64());
        self.options.announce_downtime(expected, self.observer)?;
        let since = self.stop()?;
        self.check_unused()?;
        self.observer.stage(Stage::CatchUp);
        let unarchived = standby.finish(&|| self.observer.is_interrupted())?;
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
}
