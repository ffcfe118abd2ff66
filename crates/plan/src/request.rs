//! The request of a run, with which it can be repeated.

use poolwright_openzfs::Device;
use poolwright_openzfs::clock::Costs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Settings;

/// The inputs of a run other than the directory and the trace's path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRecord {
    /// Name of the goal.
    pub goal: String,
    /// Requirements, as given by the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// Wall time for estimates and trials, in seconds.
    pub budget_s: f64,
    /// ARC limit of the trials in bytes.
    pub arc_bytes: u64,
    /// `zfs_dirty_data_max` of the trials in bytes.
    pub dirty_bytes: u64,
    /// Sector size given by the user as a power of two; if missing, it is chosen for the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ashift: Option<u32>,
    /// The emulated device, with all its figures.
    pub device: Device,
    /// What work cost on the trials' virtual clock. Its codecs are those that the user gave or the trials measured; the recording has the
    /// others. Missing in plans of older releases, whose trials could run on the machine's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Property values that the user stated as today's.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub stated: Settings,
    /// Seed of all random choices.
    pub seed: u64,
    /// Limit for the bytes of data with which a trial fills its pool.
    pub sample_bytes: u64,
    /// Whether published advice was tried after the plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check_advice: bool,
    /// Checksum of the trace's description, file table and events.
    pub trace_checksum: String,
}
