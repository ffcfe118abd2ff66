//! The spellings that `zfs` accepts: equivalent names and values, and all values of `compression`. `zfsprops(7)` documents them;
//! the tests compare them with the library's tables.

use super::parse_size;
use crate::c_text::c_text;
use crate::ffi;

/// Short names of properties: the column titles of `zfs list` and `zfs get`, in lower case.
const NAMES: &[(&str, &str)] =
    &[("recsize", "recordsize"), ("compress", "compression"), ("redund_md", "redundant_metadata")];

/// Values that are aliases: property, alias, value.
const VALUES: &[(&str, &str, &str)] = &[
    ("compression", "on", "lz4"),
    ("compression", "gzip", "gzip-6"),
    ("compression", "zstd", "zstd-3"),
    ("compression", "zstd-fast", "zstd-fast-1"),
    ("checksum", "on", "fletcher4"),
];

/// The levels of `zstd-fast`, which have gaps.
const ZSTD_FAST: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 500, 1000];

/// Returns all values that `zfs set compression=` accepts, including aliases.
pub fn compressions() -> Vec<String> {
    let plain = ["off", "on", "lz4", "lzjb", "zle", "gzip", "zstd", "zstd-fast"].map(str::to_owned);
    let gzip = (1..=9).map(|level| format!("gzip-{level}"));
    let zstd = (1..=19).map(|level| format!("zstd-{level}"));
    let fast = ZSTD_FAST.iter().map(|level| format!("zstd-fast-{level}"));
    plain.into_iter().chain(gzip).chain(zstd).chain(fast).collect()
}

/// Sizes that only datasets of the kernel have, in addition to those in the tables of properties.
const KERNEL_SIZES: &[&str] =
    &["reservation", "refreservation", "special_small_blocks", "volsize", "volblocksize", "dnodesize"];

/// Whether the values of a property are sizes. The limit of each user (`userquota@NAME`) is one too.
pub fn is_size(property: &str) -> bool {
    let (kind, name) = property.split_once('@').unwrap_or((property, ""));
    let mut known = super::PROPERTIES.iter().chain(super::LIMITS);
    known.any(|of| of.name == property && of.size)
        || KERNEL_SIZES.contains(&property)
        || (!name.is_empty() && ["userquota", "groupquota", "projectquota"].contains(&kind))
}

/// Returns the canonical one of equivalent spellings: sizes in bytes, 0 for no limit, `lz4` for `compression=on`. Returns an unknown value
/// unchanged.
pub fn canonical(property: &str, value: &str) -> String {
    let property = canonical_name(property);
    if is_size(property) {
        return match (value, parse_size(value)) {
            ("none", _) => "0".to_owned(),
            (_, Ok(bytes)) => bytes.to_string(),
            (_, Err(_)) => value.to_owned(),
        };
    }
    let alias = VALUES.iter().find(|(of, alias, _)| *of == property && *alias == value);
    alias.map_or(value, |(_, _, meaning)| meaning).to_owned()
}

/// Returns the name of a property in the table.
pub(super) fn canonical_name(name: &str) -> &str {
    NAMES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, known)| known)
}

/// Returns the number that a pool stores for a property's value, or `None` if the library does not know the property or the
/// value, or the property is numeric. The library fills its tables when the engine starts.
pub(crate) fn number(property: &str, value: &str) -> Option<u64> {
    let (property, value) = (c_text(property).ok()?, c_text(value).ok()?);
    let mut number = 0;
    // SAFETY: two C strings and a writable integer; the table behind them is static.
    let errno = unsafe { ffi::pw_property_lookup(property.as_ptr(), value.as_ptr(), &mut number) };
    (errno == 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::codec::{Codec, Stored};
    use crate::property::{PROPERTIES, check, find};
    use crate::{Compression, Config, Engine, Geometry};

    fn engine() -> Engine {
        Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).unwrap()
    }

    #[test]
    fn names_are_those_of_the_library() {
        engine();
        for (alias, name) in NAMES {
            assert_eq!(find(alias).unwrap().name, *name);
            let value = PROPERTIES.iter().find(|p| p.name == *name).unwrap().default;
            assert_eq!(number(alias, value), number(name, value), "{alias}");
        }
    }

    #[test]
    fn values_are_those_of_the_library() {
        engine();
        for property in PROPERTIES.iter().filter(|p| !p.size && p.name != "copies") {
            let name = c_text(property.name).unwrap();
            // SAFETY: a C string; for a known property, the library returns a static one.
            let words = unsafe { CStr::from_ptr(ffi::pw_property_values(name.as_ptr())) }.to_str().unwrap();
            let listed = words.split(" | ").map(str::trim).filter(|word| !word.contains(['[', ']', '<']));
            for word in listed.chain(["", "sometimes", "inherit", "ON"]) {
                let library = word != "inherit" && number(property.name, word).is_some();
                assert_eq!(check(property.name, word).is_ok(), library, "{}={word}", property.name);
            }
        }
    }

    #[test]
    fn an_alias_has_the_number_of_its_meaning_where_the_library_resolves_it_at_once() {
        engine();
        // `on` and `zstd` keep a number of their own in the pool and are resolved at the write.
        for (property, alias, meaning) in
            VALUES.iter().filter(|(_, alias, _)| !["on", "zstd"].contains(alias))
        {
            assert_eq!(number(property, alias).unwrap(), number(property, meaning).unwrap(), "{alias}");
        }
    }

    #[test]
    fn every_spelling_compresses_and_an_alias_as_its_meaning() {
        let engine = engine();
        // Words for the codecs that look for repeats, and zeros for zle.
        let record: Vec<u8> = (0..128u32 << 10)
            .map(|i| if i / 64 % 2 == 0 { 0 } else { b"transaction group "[(i % 18) as usize] })
            .collect();
        let size = |spelling: &str| {
            let compression = Compression::parse(spelling).unwrap();
            let mut codec = Codec::new(engine, &compression, record.len());
            let stored = codec.store(&record, &Geometry::plain(9)).unwrap();
            (stored, codec.compressed().len())
        };
        for spelling in compressions() {
            let (stored, bytes) = size(&spelling);
            assert_eq!((stored, bytes), size(&canonical("compression", &spelling)), "{spelling}");
            if spelling == "off" {
                assert_eq!(stored, Stored::Raw(record.len()));
            } else {
                assert!((1..record.len() * 7 / 8).contains(&bytes), "{spelling}: {bytes} bytes");
            }
        }
    }

    #[test]
    fn sizes_have_one_spelling() {
        for spelling in ["128K", "128k", "128KB", "128KiB", "131072", "0.125M"] {
            check("recordsize", spelling).unwrap();
            assert_eq!(canonical("recsize", spelling), "131072", "{spelling}");
        }
        for shift in 9..=24 {
            check("recordsize", &(1u32 << shift).to_string()).unwrap();
        }
        assert_eq!(canonical("recordsize", "16M"), (16 << 20).to_string());
        assert_eq!(canonical("recordsize", "some"), "some");
        for property in ["quota", "refquota", "reservation", "special_small_blocks", "userquota@mysql"] {
            assert_eq!(canonical(property, "1M"), "1048576", "{property}");
            assert_eq!(canonical(property, "none"), "0", "{property}");
        }
        assert_eq!(canonical("dnodesize", "legacy"), "legacy");
        assert_eq!(canonical("primarycache", "metadata"), "metadata");
    }
}
