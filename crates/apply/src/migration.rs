//! Moves the datasets of a database to another pool, with the properties that a plan recommends, and back.
//!
//! `ashift` and the layout of vdevs are fixed when a pool is created, so other ones need another pool. [`MigrationRun::execute`] creates a
//! dataset there for each dataset of the database. The files are copied from snapshots ([`run`]): while the database runs, and once more
//! what has changed, while it is stopped. They are written anew, so they have the records and the codec of their new datasets. Then the
//! new datasets are mounted in the places of the old ones, which stay as they are, unmounted.
//!
//! For PostgreSQL, a standby server can be built on the new datasets instead, which follows the database while it runs and then takes its
//! place.
//!
//! A state file ([`state`]) makes it resumable: each step can be repeated, and before each step whose completion the datasets do not show,
//! the state is written.

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
