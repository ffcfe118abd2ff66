//! The I/O counters of vdevs: `zpool get … all-vdevs` (2.2 and later).

use super::error::MalformedOutput;
use super::number::Row;

/// The requested properties. `guid` must be the first: it begins a vdev.
pub const PROPERTIES: &str = "guid,read_ops,write_ops,trim_ops,read_bytes,write_bytes,trim_bytes,read_errors,write_errors,\
                              checksum_errors,ashift,allocated,size";

/// The I/O of one vdev since the pool was imported. The root (the pool) has no I/O of its own: its counters are 0. Cache devices and
/// spares are missing, because `zpool get` cannot tell their properties; [`super::histogram`] has the I/O of cache devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VdevCounters {
    /// The name as `zpool get` prints it: `root-0`, `mirror-0`, `sda`.
    pub name: String,
    /// The vdev's GUID.
    pub guid: Option<u64>,
    /// Reads. As the others, `None` if the vdev has no such counter.
    pub read_ops: Option<u64>,
    /// Writes.
    pub write_ops: Option<u64>,
    /// Trims.
    pub trim_ops: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Bytes trimmed.
    pub trim_bytes: Option<u64>,
    /// Failed reads.
    pub read_errors: Option<u64>,
    /// Failed writes.
    pub write_errors: Option<u64>,
    /// Blocks with a wrong checksum.
    pub checksum_errors: Option<u64>,
    /// The exponent of the sector size: 12 for 4096 bytes.
    pub ashift: Option<u64>,
    /// Allocated bytes.
    pub allocated: Option<u64>,
    /// The size in bytes.
    pub size: Option<u64>,
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
            vdevs.push(VdevCounters { name: row.text(0).to_owned(), guid: value, ..VdevCounters::default() });
            continue;
        }
        let vdev = vdevs.last_mut().ok_or_else(|| row.malformed("the first property is not guid"))?;
        let field = field(vdev, property);
        *field.ok_or_else(|| row.malformed(format!("unexpected property {property:?}")))? = value;
    }
    Ok(vdevs)
}

fn field<'a>(vdev: &'a mut VdevCounters, property: &str) -> Option<&'a mut Option<u64>> {
    Some(match property {
        "read_ops" => &mut vdev.read_ops,
        "write_ops" => &mut vdev.write_ops,
        "trim_ops" => &mut vdev.trim_ops,
        "read_bytes" => &mut vdev.read_bytes,
        "write_bytes" => &mut vdev.write_bytes,
        "trim_bytes" => &mut vdev.trim_bytes,
        "read_errors" => &mut vdev.read_errors,
        "write_errors" => &mut vdev.write_errors,
        "checksum_errors" => &mut vdev.checksum_errors,
        "ashift" => &mut vdev.ashift,
        "allocated" => &mut vdev.allocated,
        "size" => &mut vdev.size,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requested_property_has_a_field() {
        for property in PROPERTIES.split(',').skip(1) {
            assert!(field(&mut VdevCounters::default(), property).is_some(), "{property}");
        }
        assert!(PROPERTIES.starts_with("guid,"));
    }

    #[test]
    fn vdevs_of_equal_names_are_separate() {
        let text = "sda\tguid\t1\nsda\tread_ops\t5\nsda\tguid\t2\nsda\tread_ops\t-\n";
        let vdevs = parse_vdev_counters(text).unwrap();
        assert_eq!(vdevs.len(), 2);
        assert_eq!((vdevs[0].guid, vdevs[0].read_ops, vdevs[1].read_ops), (Some(1), Some(5), None));
        assert!(parse_vdev_counters("sda\tread_ops\t5\n").is_err());
        assert!(parse_vdev_counters("sda\tguid\t1\nsda\tother\t5\n").is_err());
    }
}
