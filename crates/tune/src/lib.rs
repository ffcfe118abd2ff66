//! Roles, candidates, objectives, search, the plan.
//!
//! [`tune`] reads a trace and the files behind it, screens settings with the space estimate and a small I/O model,
//! races what is left on the engine, and says per role whether anything beats today's beyond noise. Every trial is a
//! child process (`poolwright trial`).

mod accesses;
mod assemble;
pub mod candidates;
pub mod confirm;
mod current;
pub mod database;
mod error;
mod evidence;
mod fit;
mod groups;
mod headline;
pub mod machine;
mod memory;
pub mod model;
pub mod objective;
pub mod plan;
pub mod race;
pub mod requirement;
mod roles;
mod screen;
pub mod statistics;
mod trials;
mod tuner;

pub use error::{Error, Result};
pub use objective::Goal;
pub use requirement::Requirement;
pub use tuner::{Progress, Request, tune};
