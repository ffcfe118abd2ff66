//! The I/O counters of vdevs: `zpool get … all-vdevs` (2.2 and later).

use std::collections::BTreeMap;

use super::error::MalformedOutput;
use super::number::Row;

/// The requested properties. `guid` must be the first: it begins a vdev.
pub const PROPERTIES: &str = "guid,read_ops,write_ops,trim_ops,read_bytes,write_bytes,trim_bytes,read_errors,write_errors,\
                              checksum_errors,ashift,allocated,size";

/// The I/O of one vdev since the pool was imported. The root (the pool) does no I/O itself: its counters are 0. Cache devices and spares
/// are missing, because `zpool get` does not support them; [`super::histogram`] has the I/O of cache devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VdevCounters {
    /// The vdev's GUID.
    pub guid: Option<u64>,
    values: BTreeMap<String, u64>,
}

impl VdevCounters {
    /// One of [`PROPERTIES`]: a number of requests or errors, bytes, or the exponent of the sector size (`ashift`). `None` if the vdev
    /// does not have it.
    pub fn get(&self, property: &str) -> Option<u64> {
        self.values.get(property).copied()
    }
}

/// Parses the output of `zpool get -Hp -o name,property,value` [`PROPERTIES`] `POOL all-vdevs`.
///
/// # Errors
/// If a line has another number of columns, or a value is malformed.
pub fn parse_vdev_counters(text: &str) -> Result<Vec<VdevCounters>, MalformedOutput> {
    let mut vdevs: Vec<VdevCounters> = Vec::new();
    for row in Row::all(text, 3) {
        let row = row?;
        let (property, value) = (row.text(1), row.number(2)?);
        if property == "guid" {
            vdevs.push(VdevCounters { guid: value, ..VdevCounters::default() });
            continue;
        }
        let vdev = vdevs.last_mut().ok_or_else(|| row.malformed("the first property is not guid"))?;
        vdev.values.extend(value.map(|value| (property.to_owned(), value)));
    }
    Ok(vdevs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vdevs_of_equal_names_are_separate() {
        let text = "sda\tguid\t1\nsda\tread_ops\t5\nsda\tguid\t2\nsda\tread_ops\t-\n";
        let vdevs = parse_vdev_counters(text).unwrap();
        assert_eq!(vdevs.len(), 2);
        assert_eq!(
            (vdevs[0].guid, vdevs[0].get("read_ops"), vdevs[1].get("read_ops")),
            (Some(1), Some(5), None)
        );
        assert!(parse_vdev_counters("sda\tread_ops\t5\n").is_err());
        assert!(PROPERTIES.starts_with("guid,"));
    }
}
