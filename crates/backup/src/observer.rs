//! Reports the progress of a run, and polls for an interruption.

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupStage {
    /// The database is being quiesced.
    Quiesce,
    /// The snapshot is being taken.
    Snapshot,
    /// The database is being released.
    Release,
    /// The snapshot is copied into the dataset of the backups.
    Copy,
    /// The copy is compared with the snapshot.
    Compare,
    /// The snapshot of the dataset of the backups is taken.
    Complete,
    /// A backup is copied into the directories of a database, or into a scratch directory.
    Restore,
    /// The restored database is started and checked.
    Check,
    /// A backup is sent to another dataset as a stream.
    Send,
}

impl BackupStage {
    /// The stage in words.
    pub fn title(self) -> &'static str {
        match self {
            BackupStage::Quiesce => "quiescing the database",
            BackupStage::Snapshot => "taking the snapshot",
            BackupStage::Release => "releasing the database",
            BackupStage::Copy => "copying",
            BackupStage::Compare => "comparing the copy",
            BackupStage::Complete => "completing the backup",
            BackupStage::Restore => "restoring",
            BackupStage::Check => "checking the restored database",
            BackupStage::Send => "sending",
        }
    }
}

/// Receives the progress of a run.
pub trait BackupObserver {
    /// A stage begins.
    fn stage(&mut self, stage: BackupStage);
    /// So many bytes of the stage's total are done.
    fn progress(&mut self, done: u64, total: u64);
    /// A remark for the user.
    fn note(&mut self, text: &str);
    /// Whether the user wants to stop. Called often.
    fn is_interrupted(&self) -> bool;
}
