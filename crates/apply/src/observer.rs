//! Reports the progress of a run.

use poolwright_dbms::service::ServiceObserver;

/// A stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Properties are set.
    Properties,
    /// Files are copied while the database may run.
    Copy,
    /// The database is stopped.
    Stop,
    /// Files that have changed since are copied.
    Update,
    /// Copies are renamed over the files.
    Commit,
    /// The files, which nothing can write, are compared with those that were written by `apply`.
    Compare,
    /// The datasets are rolled back.
    RollBack,
    /// A copy of the database is compared with checksums of the server.
    Verify,
    /// A standby receives what the database writes.
    CatchUp,
    /// Datasets are mounted in the places of others.
    Switch,
    /// The database is started.
    Start,
}

impl Stage {
    /// What happens, for messages.
    pub fn title(self) -> &'static str {
        match self {
            Stage::Properties => "setting properties",
            Stage::Copy => "copying files",
            Stage::Stop => "stopping the database",
            Stage::Update => "copying what has changed",
            Stage::Commit => "replacing files",
            Stage::Compare => "comparing files with those that were applied",
            Stage::RollBack => "rolling back",
            Stage::Verify => "comparing the copy with the server's checksums",
            Stage::CatchUp => "waiting until the standby has caught up",
            Stage::Switch => "mounting the datasets in their new places",
            Stage::Start => "starting the database",
        }
    }
}

/// Receives the progress of a run.
pub trait RunObserver: ServiceObserver {
    /// A stage begins.
    fn stage(&mut self, stage: Stage);
    /// So many bytes of the stage's total are done; each byte counts twice, because copies are compared.
    fn progress(&mut self, done: u64, total: u64);
}
