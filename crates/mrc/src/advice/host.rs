//! Today's ARC and memory.

use std::fs::read_to_string;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The limits of a host's ARC. Unknown values are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        Host::below(Path::new("/proc"))
    }

    /// Reads a copy of `/proc`.
    pub fn below(proc: &Path) -> Host {
        let read = |path: &str| read_to_string(proc.join(path)).unwrap_or_default();
        let (arcstats, meminfo) = (read("spl/kstat/zfs/arcstats"), read("meminfo"));
        Host {
            arc_max_bytes: kstat(&arcstats, "c_max"),
            arc_bytes: kstat(&arcstats, "size"),
            memory_bytes: total(&meminfo),
        }
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

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_zfs_and_one_without() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Host::below(dir.path()), Host::default());
        std::fs::create_dir_all(dir.path().join("spl/kstat/zfs")).unwrap();
        let meminfo = "MemTotal:       32768000 kB\nMemFree:         1024000 kB\n";
        std::fs::write(dir.path().join("meminfo"), meminfo).unwrap();
        let arcstats = "13 1 0x01 147 39984 5230155 890155\nname                            type data\n\
                        hits                            4    1234\nc                               4    3000\n\
                        c_min                           4    1000\nc_max                           4    16777216000\n\
                        size                            4    2147483648\n";
        std::fs::write(dir.path().join("spl/kstat/zfs/arcstats"), arcstats).unwrap();
        let host = Host {
            arc_max_bytes: Some(16_777_216_000),
            arc_bytes: Some(2_147_483_648),
            memory_bytes: Some(32_768_000 * 1024),
        };
        assert_eq!(Host::below(dir.path()), host);
    }
}
