//! Applies a plan of `tune` to the datasets of a database, and undoes it.
//!
//! Setting a property such as `recordsize` changes no existing file. [`Run::apply`] sets the properties and rewrites the files,
//! so that all of the database has the recommended settings; [`Run::undo`] restores properties (with their sources) and files.
//!
//! - [`assessment`] determines what a run would do, and refuses a plan that describes another database.
//! - [`journal`] makes both resumable: a crash at any point loses nothing, and running the command again continues.
//! - [`rewrite`] copies files and renames the copies over them.
//! - [`relocation`] moves a directory into a separate dataset.
//! - [`migration`] moves all datasets of a database to another pool instead, and back.
//!
//! A snapshot keeps the files as they were, until the plan is undone or the snapshot is discarded.

pub mod assessment;
mod error;
pub mod journal;
pub mod json_file;
pub mod migration;
mod observer;
pub mod relocation;
pub mod rewrite;
pub mod run;
pub mod work;

pub use assessment::{Assessment, Assessor};
pub use error::{Error, Result};
pub use journal::Journal;
pub use observer::{RunObserver, Stage};
pub use run::{Options, Outcome, Run};
pub use work::PlanWork;
