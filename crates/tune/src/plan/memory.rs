//! How much memory the ARC needs.

use std::collections::BTreeMap;

use poolwright_mrc::advice::{Explained, Host};
use serde::{Deserialize, Serialize};

/// How often the recorded accesses would read from the devices with ARCs of many sizes, under the recommended settings.
/// Computed, not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Why there is no curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Role → recordsize of its files, for the roles whose data may be in the ARC.
    #[serde(default)]
    pub recordsizes: BTreeMap<String, String>,
    /// Today's ARC and memory.
    #[serde(default)]
    pub host: Host,
    /// What a read from the device takes; without one the time saved is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub miss_latency_ns: Option<u64>,
    /// The curve, and what it means. Its `recordsize` is left out where the roles' differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Explained>,
}
