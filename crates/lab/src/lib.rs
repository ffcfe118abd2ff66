//! Experiments with real databases: campaigns, trials, results, statistics, reports.
//!
//! `docs/lab.md` is the contract between the parts. A [`Campaign`] becomes an order of [`TrialSpec`]s; each is run by a
//! process of its own, which prints an [`Outcome`]; a [`Store`] keeps them; the report is made from the store alone.

pub mod assets;
pub mod campaign;
mod error;
pub mod order;
mod outcome;
pub mod report;
pub mod run;
mod spec;
pub mod statistics;
pub mod store;
pub mod trial;

pub use assets::Assets;
pub use campaign::Campaign;
pub use error::{Error, Result};
pub use outcome::{Measure, Outcome, PhaseOutcome, Series};
pub use spec::{TargetSpec, TrialKey, TrialSpec};
pub use store::{Run, Store, Trial};
