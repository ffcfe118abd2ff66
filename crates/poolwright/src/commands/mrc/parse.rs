//! Parsers of the arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use poolwright_base::recordsize::{invalid_recordsize, is_recordsize};
use poolwright_base::units::format_size;
use poolwright_mrc::analysis::ModelName;
use poolwright_mrc::input::Direct;
use poolwright_mrc::openzfs::PrimaryCache;
use poolwright_openzfs::Device;

use crate::commands::options::parse_size;

/// A parser of `--model`.
pub fn models() -> impl TypedValueParser<Value = ModelName> {
    let value = |model: ModelName| {
        PossibleValue::new(model.name()).help(match model {
            ModelName::Lru => "Least recently used: evicts the record that was not used for the longest time",
            ModelName::Arc => "The adaptive replacement cache as published (Megiddo and Modha, FAST '03)",
            ModelName::Openzfs => "The ARC of OpenZFS since 2.2",
        })
    };
    PossibleValuesParser::new(ModelName::ALL.map(value))
        .map(|name| ModelName::from_name(&name).expect("one of the possible values"))
}

/// A size of a cache in bytes, above 0.
pub fn cache(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("a cache needs at least one byte".into()),
        bytes => Ok(bytes),
    }
}

/// A recordsize in bytes.
pub fn recordsize(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if is_recordsize(bytes) { Ok(bytes) } else { Err(invalid_recordsize(text)) }
}

/// A compression ratio of at least 1.
pub fn ratio(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(ratio) if (1.0..=1000.0).contains(&ratio) => Ok(ratio),
        _ => {
            Err(format!("invalid compression ratio {text:?}: expected a number from 1 to 1000, such as 1.5"))
        }
    }
}

/// A sampling rate above 0 and at most 1.
pub fn rate(text: &str) -> Result<f64, String> {
    let (digits, unit) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits.trim_end(), 0.01));
    match digits.parse::<f64>().map(|rate| rate * unit) {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        _ => Err(format!("{text:?} is not a share of the records: expected for example 0.01 or 1%")),
    }
}

/// Memory for a sample in bytes.
pub fn memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    let least = poolwright_mrc::sample::MIN_MEMORY;
    if bytes < least { Err(format!("a sample needs at least {}", format_size(least))) } else { Ok(bytes) }
}

/// A value of the property `primarycache`.
pub fn primarycache(text: &str) -> Result<PrimaryCache, String> {
    match text {
        "all" => Ok(PrimaryCache::All),
        "metadata" => Ok(PrimaryCache::Metadata),
        "none" => Ok(PrimaryCache::None),
        _ => Err("primarycache is all, metadata or none".into()),
    }
}

/// A parser of `--direct`.
pub fn direct() -> impl TypedValueParser<Value = Direct> {
    PossibleValuesParser::new(Direct::ALL.map(|(_, name)| name))
        .map(|name| Direct::from_name(&name).expect("one of the possible values"))
}

/// The latency of a read in nanoseconds: a time, or that of a device profile.
pub fn latency(text: &str) -> Result<u64, String> {
    let spelled =
        if text.starts_with(|c: char| c.is_ascii_digit()) { format!("read={text}") } else { text.to_owned() };
    match Device::parse(&spelled).map(|device| device.read_latency_ns + device.seek_ns) {
        Ok(0) | Err(_) => Err(format!(
            "{text:?} is not a latency: expected for example 8ms, 80us, or a device profile such as nvme"
        )),
        Ok(ns) => Ok(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_times_or_profiles() {
        assert_eq!(latency("8ms"), Ok(8_000_000));
        assert_eq!(latency("80us"), Ok(80_000));
        assert_eq!(latency("nvme"), Ok(80_000));
        // A disk also has to seek.
        assert_eq!(latency("hdd"), Ok(12_700_000));
        for bad in ["", "fast", "0ms", "host", "measured", "8 parsecs"] {
            assert!(latency(bad).is_err(), "{bad}");
        }
    }
}
