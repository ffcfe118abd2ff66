//! Dataset properties as `zfs` spells them: the table of supported properties, and parsing of `property=value`.

mod spelling;

use std::collections::BTreeMap;

use poolwright_base::recordsize::{RECORDSIZES, invalid_recordsize, is_recordsize};

pub(crate) use spelling::number;
pub use spelling::{canonical, compressions, is_size};

use crate::{Error, Result};

/// Values by property, as `zfs` spells both. Sizes are written as `16K` or in bytes.
pub type Settings = BTreeMap<String, String>;

/// A property that the engine supports.
#[derive(Debug)]
pub struct Property {
    /// The name.
    pub name: &'static str,
    /// The default of OpenZFS 2.3.
    pub default: &'static str,
    /// The accepted values, for messages. The engine decides.
    pub values: &'static str,
    /// Whether the value is a size.
    pub size: bool,
    /// A description.
    pub about: &'static str,
}

/// The supported properties, with the defaults of OpenZFS 2.3.
pub const PROPERTIES: &[Property] = &[
    Property {
        name: "recordsize",
        default: "128K",
        values: RECORDSIZES,
        size: true,
        about: "maximum record size of files; applies only to files written afterwards",
    },
    Property {
        name: "compression",
        default: "on",
        values: "off, on, lz4, lzjb, zle, gzip[-1…9], zstd[-1…19], zstd-fast[-1…10, -20, -30 … -100, -500, -1000]",
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
        about: "what is cached in cache vdevs",
    },
    Property {
        name: "logbias",
        default: "latency",
        values: "latency, throughput",
        size: false,
        about: "whether the data of synchronous writes goes to log blocks or directly to its final blocks",
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
        values: "on, off, fletcher2, fletcher4, sha256, sha512, skein, edonr, blake3",
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
        about: "what is prefetched",
    },
    Property {
        name: "direct",
        default: "standard",
        values: "standard, always, disabled",
        size: false,
        about: "whether reads and writes with O_DIRECT bypass the ARC, or all that are aligned",
    },
    Property {
        name: "snapdir",
        default: "hidden",
        values: "disabled, hidden, visible",
        size: false,
        about: "whether .zfs is listed in the root directory; hidden, it can still be reached by name",
    },
];

/// Limits on the space of a dataset. They do not affect how data is stored, so no trial varies them. They are not inherited.
pub const LIMITS: &[Property] = &[
    Property {
        name: "quota",
        default: "none",
        values: "none or a size",
        size: true,
        about: "limit on the space of the dataset, its snapshots and all datasets below it",
    },
    Property {
        name: "refquota",
        default: "none",
        values: "none or a size",
        size: true,
        about: "limit on the space that the dataset references, without snapshots and datasets below it",
    },
];

/// Properties that only volumes have. Volumes have those of [`PROPERTIES`] too, except for [`NOT_OF_VOLUMES`].
pub const VOLUME_PROPERTIES: &[Property] = &[Property {
    name: "volblocksize",
    default: "16K",
    values: RECORDSIZES,
    size: true,
    about: "block size of a volume, which is fixed when the volume is created",
}];

/// Those of [`PROPERTIES`] that a volume does not have (module/zcommon/zfs_prop.c).
pub const NOT_OF_VOLUMES: [&str; 3] = ["recordsize", "direct", "snapdir"];

/// All properties of datasets and volumes, without [`LIMITS`].
pub fn all() -> impl Iterator<Item = &'static Property> {
    PROPERTIES.iter().chain(VOLUME_PROPERTIES)
}

/// The message that a volume, or a file system, does not have a property; `None` if it has it, or the property is unknown.
pub fn misplaced(name: &str, is_volume: bool) -> Option<String> {
    let of_volume = VOLUME_PROPERTIES.iter().any(|known| known.name == name);
    match is_volume {
        true => NOT_OF_VOLUMES.contains(&name).then(|| format!("a volume has no property {name}")),
        false => of_volume.then(|| format!("only a volume has the property {name}")),
    }
}

/// Whether this is one of [`LIMITS`].
pub fn is_limit(property: &Property) -> bool {
    LIMITS.iter().any(|p| p.name == property.name)
}

/// Returns the property of this name that can be set on a dataset: one of [`PROPERTIES`] or [`LIMITS`].
///
/// # Errors
/// [`Error::Invalid`] if there is no such property.
pub fn find_settable(name: &str) -> Result<&'static Property> {
    if let Some(limit) = LIMITS.iter().find(|p| p.name == name) {
        return Ok(limit);
    }
    let wanted = spelling::canonical_name(name);
    PROPERTIES.iter().find(|p| p.name == wanted).ok_or_else(|| {
        let known: Vec<_> = PROPERTIES.iter().chain(LIMITS).map(|p| p.name).collect();
        Error::Invalid(format!("unknown property {name:?} (known: {})", known.join(", ")))
    })
}

/// Returns the property of this name: one of [`PROPERTIES`] or [`VOLUME_PROPERTIES`].
///
/// # Errors
/// [`Error::Invalid`] if there is no such property.
pub fn find(name: &str) -> Result<&'static Property> {
    let wanted = spelling::canonical_name(name);
    all().find(|p| p.name == wanted).ok_or_else(|| {
        let known: Vec<_> = PROPERTIES.iter().map(|p| p.name).collect();
        Error::Invalid(format!("unknown property {name:?} (known: {})", known.join(", ")))
    })
}

/// Parses a size such as `16K`, `1.5G`, `4096`, `128KiB` or `2gb`. Returns bytes. Suffixes are binary, in upper or lower case, as
/// in ZFS.
///
/// # Errors
/// [`Error::Invalid`] if the text is not a size or exceeds 64 bits.
pub fn parse_size(text: &str) -> Result<u64> {
    let error = || {
        Error::Invalid(format!("invalid size {text:?}: expected a number of bytes, such as 8192, 16K or 2G"))
    };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, suffix) = trimmed.split_at(split);
    let shift = suffix_shift(suffix.trim_start()).ok_or_else(error)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(error);
    }
    let value = number.parse::<f64>().map_err(|_| error())? * (1u64 << shift) as f64;
    // 2^64 itself is the first value that does not fit.
    if value.is_finite() && value < u64::MAX as f64 { Ok(value.round() as u64) } else { Err(error()) }
}

fn suffix_shift(suffix: &str) -> Option<u32> {
    let upper = suffix.to_ascii_uppercase();
    if upper.is_empty() || upper == "B" {
        return Some(0);
    }
    let mut rest = upper.chars();
    let first = rest.next()?;
    let unit = ['K', 'M', 'G', 'T', 'P', 'E'].iter().position(|s| *s == first)?;
    matches!(rest.as_str(), "" | "B" | "IB").then_some(10 * (unit as u32 + 1))
}

/// Values that risk data: property, value, and a sentence about the risk (`zfsprops(7)`).
const RISKS: [(&str, &str, &str); 4] = [
    (
        "sync",
        "disabled",
        "sync=disabled: fsync returns at once, and a crash loses the last seconds of data that programs consider safe",
    ),
    ("checksum", "off", "checksum=off: reads return damaged data without an error"),
    (
        "redundant_metadata",
        "some",
        "redundant_metadata=some: one damaged block can lose a whole file, such as a table of the database",
    ),
    ("redundant_metadata", "none", "redundant_metadata=none: one damaged block can lose the whole dataset"),
];

/// Returns a sentence about the risk of a value; `None` if it risks no data.
pub fn risk(name: &str, value: &str) -> Option<&'static str> {
    RISKS.iter().find(|(of, risky, _)| (*of, *risky) == (name, value)).map(|(.., risk)| *risk)
}

/// Returns a sentence for each setting that risks data.
pub fn risks(settings: &Settings) -> Vec<&'static str> {
    settings.iter().filter_map(|(name, value)| risk(name, value)).collect()
}

/// Whether this is a property that trials vary and plans set: one of [`PROPERTIES`] or [`VOLUME_PROPERTIES`], by its full name, that
/// decides how data is stored or cached.
pub fn is_tuned(name: &str) -> bool {
    // What programs see of snapshots does not decide that.
    name != "snapdir" && all().any(|known| known.name == name)
}

/// Parses `property=value` and checks the name.
///
/// # Errors
/// [`Error::Invalid`] if there is no `=` or no such property.
pub fn parse_assignment(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Error::Invalid(format!("invalid setting {text:?}: expected PROPERTY=VALUE, such as recordsize=16K"))
    })?;
    Ok((find(name)?.name.to_owned(), value.to_owned()))
}

/// Checks a value without the engine, so that a mistake is reported before any work starts.
///
/// # Errors
/// [`Error::Invalid`] if the property or the value is unknown.
pub fn check(name: &str, value: &str) -> Result<()> {
    let known = find(name).or_else(|_| find_settable(name))?;
    let fine = match known.name {
        "recordsize" if parse_size(value).is_ok_and(is_recordsize) => true,
        "recordsize" => return Err(Error::Invalid(invalid_recordsize(value))),
        "volblocksize" => parse_size(value).is_ok_and(is_recordsize),
        "compression" => compressions().iter().any(|known| known == value),
        "quota" | "refquota" => value == "none" || parse_size(value).is_ok(),
        _ => known.values.split(", ").any(|v| v == value),
    };
    if fine { Ok(()) } else { Err(Error::Invalid(format!("{name}={value}: expected {}", known.values))) }
}

/// Returns the value in the engine's spelling: sizes in bytes.
pub(crate) fn plain_value(property: &Property, value: &str) -> Result<String> {
    if is_limit(property) && value == "none" {
        return Ok("0".to_owned());
    }
    if property.size { Ok(parse_size(value)?.to_string()) } else { Ok(value.to_owned()) }
}

/// Returns the default of OpenZFS 2.3 for a property of [`PROPERTIES`] or [`VOLUME_PROPERTIES`].
pub fn default_of(name: &str) -> Option<&'static str> {
    find(name).ok().map(|property| property.default)
}

/// Returns the defaults of OpenZFS 2.3 for all of [`PROPERTIES`].
pub fn defaults() -> Settings {
    PROPERTIES.iter().map(|p| (p.name.to_owned(), p.default.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_taken_as_zfs_takes_them() {
        let good = [
            ("16K", 16384),
            ("4096", 4096),
            ("1MiB", 1 << 20),
            ("1.5G", 3 << 29),
            ("2gb", 2 << 30),
            ("128KiB", 131_072),
            ("7 M", 7 << 20),
        ];
        for (text, bytes) in good {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for bad in ["", "K", "12Q", "-1", "1e400", "1e3", "sixteen", "1Q", "1.2.3", "16Kx", "99E", "NaN", "."]
        {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_size_or_an_error(text in ".*") {
            let _ = parse_size(&text);
        }
    }

    #[test]
    fn values_are_checked_as_the_engine_does() {
        crate::Engine::start(&crate::Config { arc_bytes: 64 << 20, ..Default::default() }).unwrap();
        let numbered = ["gzip-", "zstd-", "zstd-fast-", "lz4-"].into_iter();
        let numbered = numbered.flat_map(|prefix| (0..=1010).map(move |n| format!("{prefix}{n}")));
        let plain =
            ["off", "on", "lz4", "lzjb", "zle", "gzip", "zstd", "zstd-fast", "lzma", "", "LZ4", "zstd-07"];
        for name in plain.into_iter().map(str::to_owned).chain(numbered) {
            let engine = crate::Compression::parse(&name).is_ok();
            assert_eq!(check("compression", &name).is_ok(), engine, "{name}");
        }
        for (name, value) in [("recsize", "8K"), ("recordsize", "16M"), ("sync", "always"), ("copies", "2")] {
            check(name, value).unwrap();
        }
        for (name, value) in
            [("recordsize", "3K"), ("recordsize", "32M"), ("sync", "sometimes"), ("colour", "red")]
        {
            assert!(check(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn assignments() {
        assert_eq!(parse_assignment("recsize=8K").unwrap(), ("recordsize".into(), "8K".into()));
        assert!(parse_assignment("colour=red").unwrap_err().to_string().contains("known: recordsize"));
        assert!(parse_assignment("recordsize").is_err());
    }
}
