//! Checks on the database in operation whether a plan keeps its promises.
//!
//! A plan promises changes that were measured in replays. Applied, it has to bring them to the database itself, under its real load.
//! [`measure`] records the database for a while, in blocks of equal length, so that each figure has a spread; [`check`] compares the
//! state before the plan with the state since then, metric by metric, with 95 % intervals.
//!
//! - [`state`] decides whether the plan is applied now.
//! - [`blocks`] computes the figures of a recording.
//! - [`counters`] reads the counters of the pool, and [`work_count`] those of the application.
//! - [`promise`] compares, and decides.
//!
//! The load belongs to the users of the database. Where a difference can come from the load, the verdict says so instead of guessing.

pub mod blocks;
pub mod counters;
mod error;
mod measurement;
pub mod promise;
pub mod state;
pub mod work_count;

pub use error::{Error, Result};
pub use measurement::{Options, from_recording, measure};
pub use promise::{check, not_applied};
pub use state::PlanState;
