//! Properties of datasets with the sources of their values: `zfs get`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::MalformedOutput;
use super::number::Row;

/// The properties that Poolwright tunes. OpenZFS before 2.3 does not have all of them.
pub const TUNED: &str = "recordsize,volblocksize,compression,primarycache,secondarycache,logbias,sync,atime,\
                         redundant_metadata,special_small_blocks,dnodesize,xattr,checksum,copies,dedup,prefetch,\
                         direct";

/// The properties that a copy of a dataset elsewhere needs in addition to [`TUNED`]: its mount point, its type, its limits, and its
/// permissions for programs.
const OF_PLACE: &str = "mountpoint,canmount,guid,encryption,casesensitivity,normalization,utf8only,quota,refquota,relatime,acltype,\
                        exec,setuid,devices,snapdir";

/// The properties that a copy of a dataset elsewhere needs.
pub fn placed() -> String {
    format!("{OF_PLACE},{TUNED}")
}

/// The property that this release of `zfs get` does not support, according to its message: `bad property list: invalid property
/// 'prefetch'`.
pub(super) fn unknown_property(message: &str) -> Option<&str> {
    message.split_once("bad property list: invalid property '")?.1.split('\'').next()
}

/// Where the value of a property comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Parses the output of `zfs projectspace -Hp -o name`: a project ID in each line. Leaves out 0.
///
/// # Errors
/// If a line is not a number.
pub fn parse_project_ids(text: &str) -> Result<Vec<u64>, MalformedOutput> {
    let rows: Vec<Option<u64>> =
        Row::all(text, 1).map(|row| row?.number(0)).collect::<Result<_, MalformedOutput>>()?;
    Ok(rows.into_iter().flatten().filter(|id| *id != 0).collect())
}

/// Parses the output of `zfs get -Hp -t filesystem,volume -o name,property,value,source` with [`TUNED`].
///
/// # Errors
/// If a line has another number of columns, or an unknown source.
pub fn parse_properties(text: &str) -> Result<Vec<DatasetProperties>, MalformedOutput> {
    let mut datasets = Vec::new();
    parse_each(text, |dataset| datasets.push(dataset))?;
    Ok(datasets)
}

/// Parses as [`parse_properties`], and calls `each` with one dataset after the other.
///
/// # Errors
/// As [`parse_properties`]. `each` may have been called before.
pub fn parse_each(text: &str, mut each: impl FnMut(DatasetProperties)) -> Result<(), MalformedOutput> {
    let mut last: Option<DatasetProperties> = None;
    for row in Row::all(text, 4) {
        let row = row?;
        let (dataset, value) = (row.text(0), row.text(2));
        let source = PropertySource::parse(row.text(3));
        let source = source.ok_or_else(|| row.malformed(format!("{:?} is not a source", row.text(3))))?;
        let open = match last.take() {
            Some(last) if last.dataset == dataset => last,
            other => {
                other.into_iter().for_each(&mut each);
                DatasetProperties { dataset: dataset.to_owned(), properties: BTreeMap::new() }
            }
        };
        // `-` stands for a property that this dataset does not have.
        let open = last.insert(open);
        if value != "-" {
            open.properties.insert(row.text(1).to_owned(), SourcedValue { value: value.to_owned(), source });
        }
    }
    last.into_iter().for_each(each);
    Ok(())
}

impl PropertySource {
    /// Parses the column `source` of `zfs get`. `None` for an unknown text.
    pub fn parse(text: &str) -> Option<PropertySource> {
        Some(match text {
            "local" => PropertySource::Local,
            "default" => PropertySource::Default,
            "temporary" => PropertySource::Temporary,
            "received" => PropertySource::Received,
            "-" => PropertySource::None,
            _ => PropertySource::Inherited(text.strip_prefix("inherited from ")?.to_owned()),
        })
    }
}

/// As `zfs get` prints it.
impl fmt::Display for PropertySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PropertySource::Local => f.write_str("local"),
            PropertySource::Default => f.write_str("default"),
            PropertySource::Temporary => f.write_str("temporary"),
            PropertySource::Received => f.write_str("received"),
            PropertySource::None => f.write_str("-"),
            PropertySource::Inherited(from) => write!(f, "inherited from {from}"),
        }
    }
}

impl From<PropertySource> for String {
    fn from(source: PropertySource) -> String {
        source.to_string()
    }
}

impl TryFrom<String> for PropertySource {
    type Error = String;

    fn try_from(text: String) -> Result<PropertySource, String> {
        PropertySource::parse(&text).ok_or_else(|| format!("{text:?} is not a source"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let text = "tank\trecordsize\t131072\tdefault\n\
                    tank\tsync\tdisabled\treceived\n\
                    tank/a b\trecordsize\t16384\tlocal\n\
                    tank/a b\tatime\toff\tinherited from tank\n\
                    tank/v\trecordsize\t-\t-\n\
                    tank/v\tvolblocksize\t16384\t-\n\
                    tank/v\tatime\ton\ttemporary\n";
        let datasets = parse_properties(text).unwrap();
        let value = |at: usize, property: &str| datasets[at].properties.get(property).cloned();
        let sourced = |value: &str, source| Some(SourcedValue { value: value.to_owned(), source });
        assert_eq!(value(0, "recordsize"), sourced("131072", PropertySource::Default));
        assert_eq!(value(0, "sync"), sourced("disabled", PropertySource::Received));
        assert_eq!(datasets[1].dataset, "tank/a b");
        assert_eq!(value(1, "recordsize"), sourced("16384", PropertySource::Local));
        assert_eq!(value(1, "atime"), sourced("off", PropertySource::Inherited("tank".to_owned())));
        assert_eq!(value(2, "recordsize"), None);
        assert_eq!(value(2, "volblocksize"), sourced("16384", PropertySource::None));
        assert_eq!(value(2, "atime"), sourced("on", PropertySource::Temporary));
        assert!(parse_properties("tank\tsync\ton\tsomewhere\n").is_err());
        assert!(parse_properties("tank\tsync\ton\n").is_err());
    }

    #[test]
    fn the_property_that_an_older_release_does_not_know() {
        let message = "bad property list: invalid property 'prefetch'; usage:; get [-rHp] ...";
        assert_eq!(unknown_property(message), Some("prefetch"));
        assert_eq!(unknown_property("cannot open 'tank': dataset does not exist"), None);
    }

    #[test]
    fn project_ids_without_that_of_no_project() {
        assert_eq!(parse_project_ids("0\n7\n4294967295\n").unwrap(), [7, 4_294_967_295]);
        assert!(parse_project_ids("").unwrap().is_empty());
        assert!(parse_project_ids("used\n").is_err());
    }
}
