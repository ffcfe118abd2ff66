//! Dataset properties in `zfs`'s spelling: the table of those that matter here, and `property=value` parsing.

use std::collections::BTreeMap;

use crate::{Error, Result};

/// A set of `property → value`, in `zfs`'s spelling; numbers as `16K` or plain bytes.
pub type Settings = BTreeMap<String, String>;

/// One property that the engine honours.
#[derive(Debug)]
pub struct Property {
    /// Its name.
    pub name: &'static str,
    /// OpenZFS 2.3's default.
    pub default: &'static str,
    /// The values a person may try, for messages; the engine itself decides.
    pub values: &'static str,
    /// Whether it takes a size.
    pub size: bool,
    /// What it does.
    pub about: &'static str,
}

/// Every property the engine is asked to honour, with OpenZFS 2.3's defaults.
pub const PROPERTIES: &[Property] = &[
    Property {
        name: "recordsize",
        default: "128K",
        values: "512…16M, a power of two",
        size: true,
        about: "largest record of a file; only files written afterwards take it",
    },
    Property {
        name: "compression",
        default: "on",
        values: "off, on, lz4, lzjb, zle, gzip-1…9, zstd-1…19, zstd-fast-N",
        size: false,
        about: "codec of records written afterwards",
    },
    Property {
        name: "primarycache",
        default: "all",
        values: "all, metadata, none",
        size: false,
        about: "what the ARC keeps",
    },
    Property {
        name: "secondarycache",
        default: "all",
        values: "all, metadata, none",
        size: false,
        about: "what a cache vdev keeps",
    },
    Property {
        name: "logbias",
        default: "latency",
        values: "latency, throughput",
        size: false,
        about: "whether synchronous writes go through log blocks or straight to their place",
    },
    Property {
        name: "sync",
        default: "standard",
        values: "standard, always, disabled",
        size: false,
        about: "whether fsync is honoured; disabled loses acknowledged writes in a crash",
    },
    Property {
        name: "checksum",
        default: "on",
        values: "on, off, fletcher4, sha256, sha512, skein, edonr, blake3",
        size: false,
        about: "checksum of blocks written afterwards",
    },
    Property { name: "copies", default: "1", values: "1, 2, 3", size: false, about: "copies of each block" },
    Property {
        name: "redundant_metadata",
        default: "all",
        values: "all, most, some, none",
        size: false,
        about: "how much metadata is stored twice",
    },
    Property {
        name: "prefetch",
        default: "all",
        values: "all, metadata, none",
        size: false,
        about: "what is read ahead",
    },
];

/// The property of this name.
pub fn find(name: &str) -> Result<&'static Property> {
    let alias = if name == "recsize" { "recordsize" } else { name };
    PROPERTIES.iter().find(|p| p.name == alias).ok_or_else(|| {
        let known: Vec<_> = PROPERTIES.iter().map(|p| p.name).collect();
        Error::Invalid(format!("there is no property {name:?} here; known: {}", known.join(", ")))
    })
}

/// Parses `16K`, `1M`, `512`, `1.5G` to bytes.
pub fn parse_size(text: &str) -> Result<u64> {
    let bad = || Error::Invalid(format!("{text:?} is not a size; write 8192, 16K, 1M or 2G"));
    let t = text.trim().trim_end_matches(['b', 'B']).trim_end_matches(['i', 'I']);
    let (digits, shift) = match t.chars().last().ok_or_else(bad)?.to_ascii_uppercase() {
        'K' => (&t[..t.len() - 1], 10),
        'M' => (&t[..t.len() - 1], 20),
        'G' => (&t[..t.len() - 1], 30),
        'T' => (&t[..t.len() - 1], 40),
        'P' => (&t[..t.len() - 1], 50),
        _ => (t, 0),
    };
    let value: f64 = digits.parse().map_err(|_| bad())?;
    let bytes = value * (1u64 << shift) as f64;
    if !(0.0..9.0e18).contains(&bytes) || digits.is_empty() {
        return Err(bad());
    }
    Ok(bytes as u64)
}

/// Parses `property=value` and checks the name.
pub fn parse_assignment(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Error::Invalid(format!("{text:?} is not property=value, for instance recordsize=16K"))
    })?;
    Ok((find(name)?.name.to_owned(), value.to_owned()))
}

/// The value as the engine takes it: sizes in plain bytes.
pub(crate) fn plain_value(property: &Property, value: &str) -> Result<String> {
    if property.size { Ok(parse_size(value)?.to_string()) } else { Ok(value.to_owned()) }
}

/// OpenZFS 2.3's defaults of every property in the table.
pub fn defaults() -> Settings {
    PROPERTIES.iter().map(|p| (p.name.to_owned(), p.default.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_assignments() {
        assert_eq!(parse_size("16K").unwrap(), 16384);
        assert_eq!(parse_size("1MiB").unwrap(), 1 << 20);
        assert_eq!(parse_size("1.5G").unwrap(), 3 << 29);
        for bad in ["", "K", "12Q", "-1", "1e400", "sixteen"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_assignment("recsize=8K").unwrap(), ("recordsize".into(), "8K".into()));
        assert!(parse_assignment("colour=red").unwrap_err().to_string().contains("known: recordsize"));
        assert!(parse_assignment("recordsize").is_err());
    }
}
