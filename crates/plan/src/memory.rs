//! Memory that the ARC needs.

use std::collections::BTreeMap;

use poolwright_mrc::advice::{Explained, Host};
use poolwright_trace::layout::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The miss-ratio curve of the recorded accesses under the recommended settings: how often ARCs of many sizes would
/// read from the devices. It is computed, not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Why there is no curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Role → recordsize of its files, for roles whose data may be in the ARC.
    #[serde(default)]
    pub recordsizes: BTreeMap<Role, String>,
    /// Size of today's ARC and of the machine's memory.
    #[serde(default)]
    pub host: Host,
    /// Nanoseconds that a read from the device takes; if missing, the saved waiting time is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub miss_latency_ns: Option<u64>,
    /// The curve and its interpretation. Its `recordsize` is missing if the roles' recordsizes differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Explained>,
}
