//! Experiments with real databases: campaigns, trials, results, statistics, reports.
//!
//! `docs/lab.md` is the contract between the parts. The program derives the order of [`TrialSpec`]s from a
//! [`Campaign`]; a child process runs each trial and prints an [`Outcome`]; a [`Store`] keeps the outcomes; the
//! report is made from the store alone.

pub mod assets;
pub mod campaign;
mod campaign_list;
mod claim_test;
mod error;
pub mod json_output;
pub mod order;
mod outcome;
pub mod report;
pub mod run;
mod run_target;
mod spec;
pub mod statistics;
pub mod store;
pub mod trial;

pub use assets::Assets;
pub use campaign::Campaign;
pub use campaign_list::CampaignList;
pub use error::{Error, Result};
pub use outcome::{LabPoolLoad, Measure, Outcome, PhaseOutcome, Series};
pub use run_target::{PoolWrites, RunTarget};
pub use spec::{TargetSpec, TrialKey, TrialSpec};
pub use store::{Run, Store, Trial};
