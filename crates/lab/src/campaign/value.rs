//! Types of single values in a campaign's file. Each is checked as it is parsed, so the error has the value's position.

use std::time::Duration;

use poolwright_openzfs::property;
use poolwright_openzfs::{Device, Engine};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use toml::Value;

use super::measure::UNITS;
use super::{Parameters, Times};

pub(super) type Checked<T> = std::result::Result<T, String>;

/// Declares types that are parsed from `$raw` and checked by `$check`.
macro_rules! checked {
    ($($(#[$attribute:meta])* $name:ident($inner:ty) = $raw:ty => $check:expr;)*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug)]
        pub(super) struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                let check: fn($raw) -> Checked<$inner> = $check;
                check(<$raw>::deserialize(from)?).map($name).map_err(D::Error::custom)
            }
        }
    )*};
}

pub(super) const MAX_BLOCKS: u32 = 1000;

checked! {
    /// Text that is usable as a name of files, datasets and columns.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    Word(String) = String => word;
    /// Text that is not empty.
    Line(String) = String => line;
    /// A value as in levels, cases and properties: text, a number, true or false.
    Spelled(String) = Value => |value| spelled(&value);
    /// A size such as `4G`, in bytes.
    Size(u64) = Value => |value| size(&value);
    /// A time such as `30s`, `5m`, `1h`, in nanoseconds.
    Time(u64) = String => time_ns;
    DriverParameters(Parameters) = toml::Table => parameters;
    Blocks(u32) = Value => |value| whole(&value, 1, MAX_BLOCKS);
    Ashift(u32) = Value => |value| whole(&value, 9, 16);
    /// The interval of the stop rule.
    Interval(f64) = Value => |value| within(&value, 0.001, 1.0);
    /// A share of a phase's work.
    Progress(f64) = Value => |value| within(&value, 0.0, 1.0);
    Seconds(f64) = Value => |value| within(&value, 0.0, 1e6);
    /// A bound of a claim.
    Bound(f64) = Value => |value| within(&value, f64::MIN_POSITIVE, 1e18);
    /// A figure of the original.
    Figure(f64) = Value => |value| finite(&value);
    /// `2`, or `[0.9, 1.1]`.
    TimesRange(Times) = Value => times;
    /// Arguments of `pool create`.
    Vdevs(Vec<String>) = Vec<Line> => vdevs;
    ArcLimit(String) = Value => arc;
    /// A device in the spelling of `mount --device`: `KIND[,FILE=KIND…]`.
    DeviceSpec(String) = String => device;
    Caching(String) = String => caching;
    MemoryLimit(String) = Value => memory_limit;
    Snapshots(String) = String => |text| SnapshotRule::parse(&text).map(|_| text.clone());
    /// The unit of a driver's figure.
    MeasureUnit(String) = String => unit;
    /// The name of a module parameter.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    TunableName(String) = String => tunable_name;
    /// The value of a module parameter: a size or a number.
    Tunable(String) = Value => |value| size(&value).and_then(|_| spelled(&value));
}

/// How often all datasets of a trial get a snapshot in a measured phase, and how many of them are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRule {
    /// The interval.
    pub every: Duration,
    /// The number of the newest snapshots that are kept; `None` keeps all.
    pub keep: Option<usize>,
}

impl SnapshotRule {
    /// Parses `none`, an interval (`2s`), or an interval and a number (`2s,keep=5`).
    ///
    /// # Errors
    /// Returns why the text is none of these.
    pub fn parse(text: &str) -> Checked<Option<SnapshotRule>> {
        if text == "none" {
            return Ok(None);
        }
        let wanted = || format!("expected none, an interval such as 2s, or 2s,keep=5, not {text:?}");
        let (every, keep) =
            text.split_once(",keep=").map_or((text, None), |(every, keep)| (every, Some(keep)));
        let every = Duration::from_nanos(time_ns(every.to_owned()).map_err(|_| wanted())?);
        let keep =
            keep.map(|keep| keep.parse().ok().filter(|keep| *keep > 0).ok_or_else(wanted)).transpose()?;
        Ok(Some(SnapshotRule { every, keep }))
    }
}

/// One value or a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected one value or a list of such values")]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(value) => std::slice::from_ref(value),
            OneOrMany::Many(values) => values,
        }
    }
}

/// Returns the message for a value of the wrong type or range.
fn expected(wanted: &str, value: &Value) -> String {
    match value {
        Value::String(text) => format!("expected {wanted}, not the text {text:?}"),
        Value::Boolean(flag) => format!("expected {wanted}, not {flag}"),
        Value::Integer(whole) => format!("expected {wanted}, not {whole}"),
        Value::Float(number) => format!("expected {wanted}, not {number}"),
        other => format!("expected {wanted}, not a value of type {}", other.type_str()),
    }
}

/// Returns the message for a name that is not among the known ones.
pub(super) fn unknown<'a, T: AsRef<str> + ?Sized + 'a>(
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a T>,
) -> String {
    let known: Vec<_> = known.into_iter().map(AsRef::as_ref).collect();
    format!("unknown {kind} {name:?}: expected one of {}", known.join(", "))
}

/// Returns the text of a value as in levels, cases and properties.
pub(super) fn spelled(value: &Value) -> Checked<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Boolean(flag) => Ok(flag.to_string()),
        Value::Integer(whole) => Ok(whole.to_string()),
        Value::Float(number) if number.is_finite() => Ok(number.to_string()),
        other => Err(expected("text or a number", other)),
    }
}

/// Returns any value as JSON for a driver. The TOML parser limits the nesting.
pub(super) fn json(value: Value) -> Checked<Json> {
    Ok(match value {
        Value::String(text) => text.into(),
        Value::Boolean(flag) => flag.into(),
        Value::Integer(whole) => whole.into(),
        Value::Float(_) => finite(&value)?.into(),
        Value::Datetime(time) => time.to_string().into(),
        Value::Array(list) => Json::Array(list.into_iter().map(json).collect::<Checked<_>>()?),
        Value::Table(table) => Json::Object(parameters(table)?),
    })
}

fn parameters(table: toml::Table) -> Checked<Parameters> {
    table.into_iter().map(|(key, value)| Ok((key, json(value)?))).collect()
}

fn word(text: String) -> Checked<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if text.is_empty() || !text.chars().all(fine) {
        return Err(format!("invalid name {text:?}: use letters, digits, - and _"));
    }
    Ok(text)
}

fn line(text: String) -> Checked<String> {
    if text.trim().is_empty() { Err("the text is empty".to_owned()) } else { Ok(text) }
}

fn whole(value: &Value, least: u32, most: u32) -> Checked<u32> {
    let whole = value.as_integer().and_then(|v| u32::try_from(v).ok()).filter(|v| (least..=most).contains(v));
    whole.ok_or_else(|| expected(&format!("a whole number from {least} to {most}"), value))
}

fn finite(value: &Value) -> Checked<f64> {
    let number = value.as_float().or(value.as_integer().map(|whole| whole as f64));
    number.filter(|number| number.is_finite()).ok_or_else(|| expected("a finite number", value))
}

/// Returns a number from `low` to `high`, both included.
fn within(value: &Value, low: f64, high: f64) -> Checked<f64> {
    let number = finite(value).ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| expected(&format!("a number from {low} to {high}"), value))
}

fn size(value: &Value) -> Checked<u64> {
    let bytes = spelled(value).ok().and_then(|text| property::parse_size(&text).ok());
    bytes.ok_or_else(|| expected("a size such as 512M or 4G", value))
}

fn time_ns(text: String) -> Checked<u64> {
    let units = [("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let parsed = units.iter().find_map(|(unit, ns)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * ns));
    match parsed {
        Some(ns) if (1e6..1e7 * 1e9).contains(&ns) => Ok(ns as u64),
        _ => Err(format!("expected a time such as 30s, 5m or 1h, not {text:?}")),
    }
}

fn times(range: Value) -> Checked<Times> {
    match range.as_array().map(Vec::as_slice) {
        None => Ok(Times { least: within(&range, 1e-6, 1e6)?, most: None }),
        Some([least, most]) => {
            let least = within(least, 1e-6, 1e6)?;
            Ok(Times { least, most: Some(within(most, least, 1e6)?) })
        }
        Some(_) => Err("expected a number, or two: the smallest and the largest".to_owned()),
    }
}

fn vdevs(words: Vec<Line>) -> Checked<Vec<String>> {
    if words.is_empty() {
        return Err("no file is named: expected for example [\"d0:64G\"]".to_owned());
    }
    match words.iter().find(|word| word.0.contains(['/', ' '])) {
        Some(Line(word)) => Err(format!(
            "invalid argument {word:?}: expected an argument of `pool create` such as mirror, log or d0:64G (files are created in the scratch directory)"
        )),
        None => Ok(words.into_iter().map(|word| word.0).collect()),
    }
}

fn arc(value: Value) -> Checked<String> {
    if size(&value)? < 64 << 20 { Err(expected("a size of at least 64M", &value)) } else { spelled(&value) }
}

fn memory_limit(value: Value) -> Checked<String> {
    match value.as_str() {
        Some("none") => Ok("none".to_owned()),
        _ if size(&value)? < 128 << 20 => Err(expected("none or a size of at least 128M", &value)),
        _ => spelled(&value),
    }
}

fn device(text: String) -> Checked<String> {
    for (i, word) in text.split(',').enumerate() {
        let kind = match word.split_once('=') {
            Some((_file, kind)) if i > 0 => kind,
            _ => word,
        };
        Device::parse(kind).map_err(|why| why.to_string())?;
    }
    Ok(text)
}

fn caching(name: String) -> Checked<String> {
    const KNOWN: [&str; 3] = ["through", "pages", "writeback"];
    if KNOWN.contains(&name.as_str()) { Ok(name) } else { Err(unknown("caching", &name, KNOWN)) }
}

fn unit(name: String) -> Checked<String> {
    if UNITS.contains(&name.as_str()) { Ok(name) } else { Err(unknown("unit", &name, UNITS)) }
}

fn tunable_name(name: String) -> Checked<String> {
    let found = Engine::tunables().any(|known| known == name);
    if found { Ok(name) } else { Err(unknown("tunable", &name, Engine::tunables())) }
}
