//! Today's ARC and memory.

use std::fs::read_to_string;

use poolwright_base::memory;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits of a host's ARC. Unknown values are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The maximum size of the ARC: `c_max` of `arcstats`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arc_max_bytes: Option<u64>,
    /// The current size of the ARC: `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arc_bytes: Option<u64>,
    /// The host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl Host {
    /// This host. There is no ARC without the ZFS kernel module.
    pub fn here() -> Host {
        let arcstats = read_to_string("/proc/spl/kstat/zfs/arcstats").unwrap_or_default();
        Host { memory_bytes: memory::total(), ..Host::with_arcstats(&arcstats) }
    }

    fn with_arcstats(text: &str) -> Host {
        Host { arc_max_bytes: kstat(text, "c_max"), arc_bytes: kstat(text, "size"), memory_bytes: None }
    }
}

/// A line `name type value` of a named kstat.
fn kstat(text: &str, name: &str) -> Option<u64> {
    let fields = |line: &str| -> Option<u64> {
        let mut words = line.split_ascii_whitespace();
        if words.next()? != name {
            return None;
        }
        words.nth(1)?.parse().ok()
    };
    text.lines().find_map(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_zfs_and_one_without() {
        assert_eq!(Host::with_arcstats(""), Host::default());
        let arcstats = "13 1 0x01 147 39984 5230155 890155\nname                            type data\n\
                        hits                            4    1234\nc                               4    3000\n\
                        c_min                           4    1000\nc_max                           4    16777216000\n\
                        size                            4    2147483648\n";
        let host =
            Host { arc_max_bytes: Some(16_777_216_000), arc_bytes: Some(2_147_483_648), memory_bytes: None };
        assert_eq!(Host::with_arcstats(arcstats), host);
    }
}
