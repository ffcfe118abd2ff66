//! What a run was asked for, so that it can be repeated, and what a repetition found.

use poolwright_openzfs::Device;
use serde::{Deserialize, Serialize};

use super::Settings;

/// Everything that `tune --repeat` needs beside the subject and the trace's path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// The goal's name.
    pub goal: String,
    /// As given with `--require`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// Wall time for estimates and trials, in seconds.
    pub budget_s: f64,
    /// ARC limit of the trials in bytes.
    pub arc_bytes: u64,
    /// `zfs_dirty_data_max` of the trials in bytes.
    pub dirty_bytes: u64,
    /// As given with `--ashift`; chosen for the device where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ashift: Option<u32>,
    /// The emulated device, with all its figures.
    pub device: Device,
    /// Properties that the user said are today's.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub stated: Settings,
    /// The seed.
    pub seed: u64,
    /// The most bytes of data that a trial fills its pool with.
    pub sample_bytes: u64,
    /// Whether published advice was tried after the plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check_advice: bool,
    /// Checksum of the trace: of its description, file table and events.
    pub trace_checksum: String,
}

/// How a repeated run compares with the plan that it repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// When the repeated plan was finished, RFC 3339 in UTC.
    pub of: String,
    /// Whether both recommend the same.
    pub same: bool,
    /// What the recommendations differ in, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// What else is not as it was: machine, versions, data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circumstances: Vec<String>,
}
