//! The format of named kstats.

use std::collections::BTreeMap;

use super::error::MalformedKstat;

/// One value of a named kstat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KstatValue {
    /// Types 1, 3 and 5: signed integers.
    Signed(i64),
    /// Types 2, 4 and 6: unsigned integers.
    Unsigned(u64),
    /// Types 0 and 7: text.
    Text(String),
}

/// A named kstat: values by their names. Which names there are depends on the version of the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedKstat {
    /// The values.
    pub values: BTreeMap<String, KstatValue>,
}

impl NamedKstat {
    /// An integer that is not negative. Returns `None` if the kstat has no such value.
    pub fn unsigned(&self, name: &str) -> Option<u64> {
        match self.values.get(name)? {
            KstatValue::Unsigned(value) => Some(*value),
            KstatValue::Signed(value) => u64::try_from(*value).ok(),
            KstatValue::Text(_) => None,
        }
    }

    /// An integer that fits. Returns `None` if the kstat has no such value.
    pub fn signed(&self, name: &str) -> Option<i64> {
        match self.values.get(name)? {
            KstatValue::Unsigned(value) => i64::try_from(*value).ok(),
            KstatValue::Signed(value) => Some(*value),
            KstatValue::Text(_) => None,
        }
    }

    /// A text. Returns `None` if the kstat has no such value.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name)? {
            KstatValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integers that are not negative, by name.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        self.values.keys().filter_map(|name| Some((name.clone(), self.unsigned(name)?))).collect()
    }
}

/// Parses a named kstat: a header, the line `name type data`, and one line for each value. Lines of types that this crate does not
/// know are skipped.
///
/// # Errors
/// If the second line is missing, or a value does not fit its type.
pub fn parse_named(text: &str) -> Result<NamedKstat, MalformedKstat> {
    let mut lines =
        text.lines().enumerate().map(|(at, line)| (at + 1, line)).skip_while(|(_, line)| !is_head(line));
    lines.next().ok_or_else(|| MalformedKstat::new(1, "no line \"name type data\""))?;
    let mut values = BTreeMap::new();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        if let Some((name, value)) = parse_value(line).map_err(|cause| MalformedKstat::new(number, cause))? {
            values.insert(name.to_owned(), value);
        }
    }
    Ok(NamedKstat { values })
}

fn is_head(line: &str) -> bool {
    line.split_whitespace().eq(["name", "type", "data"])
}

/// Parses `NAME TYPE DATA`. A name may contain spaces (`dmu_tx_…` does not, `zil` histograms do: `1024 ns`), so the type is the
/// last word before the data that is a single digit.
fn parse_value(line: &str) -> Result<Option<(&str, KstatValue)>, String> {
    todo!("{line}")
}
