//! Moves the datasets of a database to another pool, with the properties that a plan recommends, and back.
//!
//! `ashift` and the vdev layout are fixed when a pool is created, so changing them requires another pool. [`MigrationRun::execute`] creates
//! a dataset there for each dataset of the database. The files are copied from snapshots ([`run`]) while the database runs; then the
//! database is stopped, and changed files are copied again. Copying rewrites the files, so they have the record size and codec of their new
//! datasets. Then the new datasets are mounted in place of the old ones, which are kept unchanged and unmounted.
//!
//! For PostgreSQL, a standby server can be built on the new datasets instead, which follows the running database and then replaces its
//! server.
//!
//! A state file ([`state`]) makes a migration resumable: each step can be repeated, and the state is written before each step whose
//! completion the datasets do not show.

pub mod assessment;
mod mounting;
pub mod run;
mod standby;
pub mod state;
pub mod work;

pub use assessment::{MigrationAssessment, MigrationAssessor};
pub use run::{MigrationOutcome, MigrationRun};
pub use standby::check_standby;
pub use state::{MigrationState, StateFile};
pub use work::{DatasetMove, MigrationWork};
