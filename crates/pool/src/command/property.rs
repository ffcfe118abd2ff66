//! Properties of datasets with the sources of their values: `zfs get`.

use std::collections::BTreeMap;

use super::error::MalformedOutput;

/// The properties that Poolwright tunes.
pub const TUNED: &str = "recordsize,volblocksize,compression,primarycache,secondarycache,logbias,sync,atime,\
                         redundant_metadata,special_small_blocks,dnodesize,xattr,checksum,copies,dedup";

/// Where the value of a property comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertySource {
    /// Set on this dataset.
    Local,
    /// The default value.
    Default,
    /// Inherited from the named dataset.
    Inherited(String),
    /// Set by the options of the mount.
    Temporary,
    /// Received with a stream.
    Received,
    /// The property cannot be set, or its value was fixed at creation.
    None,
}

/// A property's value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedValue {
    /// The value as `zfs get -p` prints it: sizes in bytes, words as they are.
    pub value: String,
    /// Where it comes from.
    pub source: PropertySource,
}

/// The properties of one dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetProperties {
    /// The dataset's name.
    pub dataset: String,
    /// The values by property. A property that the dataset does not have (`recordsize` of a volume) is missing.
    pub properties: BTreeMap<String, SourcedValue>,
}

/// Parses the output of `zfs get -Hp -t filesystem,volume -o name,property,value,source` [`TUNED`].
///
/// # Errors
/// If a line has another number of columns, or an unknown source.
pub fn parse_properties(text: &str) -> Result<Vec<DatasetProperties>, MalformedOutput> {
    todo!("{text}")
}
