//! Tuning: roles, candidate settings, objectives, and the search, whose result is a plan.
//!
//! [`tune`] reads a trace and the files that it describes, and searches settings with trials on the engine. For each role it reports
//! whether any setting is better than today's beyond noise. Each trial is a child process (`poolwright trial`).

mod accesses;
pub mod advice;
mod alternative;
mod assemble;
pub mod candidates;
mod contribution;
pub mod criteria;
mod current;
pub mod database;
mod direct;
mod directory;
mod error;
pub mod evidence;
mod findings;
mod fit;
mod groups;
mod headline;
pub mod machine;
mod memory;
#[cfg(test)]
mod metric_tests;
pub mod objective;
mod observations;
mod pareto;
mod pipeline;
pub mod pool_layout;
pub mod race;
pub mod requirement;
mod roles;
pub mod scatter;
mod slice;
mod space;
mod track_record;
mod trials;
mod tuner;

pub use directory::database_dir;
pub use error::{Error, Result};
pub use objective::Goal;
pub use pipeline::tune;
pub use requirement::Requirement;
pub use tuner::{Progress, Request};
