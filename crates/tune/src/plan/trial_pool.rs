//! The pool of the kernel on which trials ran, and what they cost it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pool of the kernel on which trials ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialPool {
    /// The dataset below which each trial created its own.
    pub dataset: String,
    /// Its load.
    pub load: TrialPoolLoad,
}

/// The load of a pool during all trials together. Numbers are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialPoolLoad {
    /// With which the trials filled their datasets, and which reached the vdevs while they were measured, other users included.
    pub written_bytes: u64,
    /// The same of the largest trial, at least its files.
    pub largest_trial_bytes: u64,
    /// Read by others from the pool's datasets.
    pub others_read_bytes: u64,
    /// Written by others to the pool's datasets. If it is not small, the trials' bytes written to devices include it.
    pub others_written_bytes: u64,
    /// The longest median time in nanoseconds that a device took for an I/O in a second of a trial.
    pub worst_device_ns: u64,
}
