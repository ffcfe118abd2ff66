//! Backups of a database whose files are on datasets.
//!
//! [`run`] quiesces the database ([`poolwright_dbms::quiesce`]), takes one atomic snapshot of all its datasets, releases the database,
//! copies the snapshot into the dataset of the backups ([`transfer`]), compares the copy, and takes a snapshot of that dataset: the backup.
//! [`verify`] restores a backup into a scratch directory, starts the database on it and runs the database's own checks.
//! [`restore`] copies it into the database's own directories. [`archive`] copies backups into a dataset with larger records and a stronger
//! codec. [`send`] replicates them, as they are, to another pool or host. [`retention`] decides which backups may be removed, and [`prune`]
//! removes them. [`wal`] archives PostgreSQL's log, for point-in-time recovery. [`summary`] writes the file that a monitor reads.
//!
//! A backup is a snapshot, so nothing that happens later changes it; consecutive backups share their unchanged blocks.

pub mod archive;
mod chronology;
pub mod creation;
pub mod destination;
mod error;
pub mod listing;
pub mod manifest;
pub mod observer;
mod placement;
pub mod prune;
pub mod recovery;
pub mod restore;
pub mod retention;
pub mod run;
pub mod send;
pub mod summary;
#[cfg(test)]
#[allow(dead_code)] // it has more than these tests use
#[path = "../../dbms/src/test_users.rs"]
mod test_users;
mod transfer;
pub mod verify;
pub mod wal;

pub use destination::{BackupDestination, BackupEntry, BackupList};
pub use error::{Error, Result};
pub use manifest::{BackupManifest, StorageTier};
pub use observer::{BackupObserver, BackupStage};
pub use summary::BackupSummary;
