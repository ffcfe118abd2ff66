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

/// A value whose text is part of the kstat's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KstatText<'a> {
    Signed(i64),
    Unsigned(u64),
    Text(&'a str),
}

/// Parses a named kstat: a header, the line `name type data`, and one line for each value. Lines of types that this crate does not
/// know are skipped.
///
/// # Errors
/// If the second line is missing, or a value does not fit its type.
pub fn parse_named(text: &str) -> Result<NamedKstat, MalformedKstat> {
    let mut values = BTreeMap::new();
    each_value(text, |name, value| {
        let value = match value {
            KstatText::Signed(value) => KstatValue::Signed(value),
            KstatText::Unsigned(value) => KstatValue::Unsigned(value),
            KstatText::Text(value) => KstatValue::Text(value.to_owned()),
        };
        values.insert(name.to_owned(), value);
    })?;
    Ok(NamedKstat { values })
}

/// Parses as [`parse_named`], and calls `each` with the name and the value of each line.
pub(super) fn each_value<'a>(
    text: &'a str,
    mut each: impl FnMut(&'a str, KstatText<'a>),
) -> Result<(), MalformedKstat> {
    let mut lines =
        text.lines().enumerate().map(|(at, line)| (at + 1, line)).skip_while(|(_, line)| !is_head(line));
    lines.next().ok_or_else(|| MalformedKstat::new(1, "no line \"name type data\""))?;
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        if let Some((name, value)) = parse_value(line).map_err(|cause| MalformedKstat::new(number, cause))? {
            each(name, value);
        }
    }
    Ok(())
}

fn is_head(line: &str) -> bool {
    line.split_whitespace().eq(["name", "type", "data"])
}

/// Parses `NAME TYPE DATA`. A name can contain spaces (`1024 ns` in a histogram), but no word of one digit, so the first such
/// word is the type. Returns `None` for an unknown type.
fn parse_value(line: &str) -> Result<Option<(&str, KstatText<'_>)>, String> {
    let (name, kind, data) = split(line).ok_or("not a name, a type and a value")?;
    let malformed = || format!("{data:?} is not a value of type {kind}");
    let value = match kind {
        '0' => KstatText::Text(data.trim_end()),
        '1' | '3' | '5' => KstatText::Signed(data.trim_end().parse().map_err(|_| malformed())?),
        '2' | '4' | '6' => KstatText::Unsigned(data.trim_end().parse().map_err(|_| malformed())?),
        // A dataset's name can end with a space.
        '7' => KstatText::Text(data),
        _ => return Ok(None),
    };
    Ok(Some((name, value)))
}

/// Splits a line at the first word that is one digit, except the first word.
fn split(line: &str) -> Option<(&str, char, &str)> {
    let bytes = line.as_bytes();
    let mut from = line.find(' ')?;
    loop {
        let start = from + bytes[from..].iter().position(|byte| *byte != b' ')?;
        let end = bytes[start..].iter().position(|byte| *byte == b' ').map_or(line.len(), |at| start + at);
        if let [kind @ b'0'..=b'9'] = bytes[start..end] {
            let (name, data) = (line[..start].trim(), line[end..].trim_start_matches(' '));
            return Some((name, char::from(kind), data));
        }
        if end == line.len() {
            return None;
        }
        from = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rows: &str) -> Result<NamedKstat, MalformedKstat> {
        parse_named(&format!(
            "12 1 0x01 5 1360 4504012345 99\nname                            type data\n{rows}"
        ))
    }

    #[test]
    fn values_of_all_types() {
        let stats = parse(
            "hits                            4    18446744073709551615\n\
             memory_available_bytes          3    -5\n\
             1024 ns                         4    7\n\
             dataset_name                    7    tank/4 7 with space \n\
             a_name_of_more_than_31_characters_00 4    1\n\
             letters                         0    abc             \n\
             new_type                        9    ?\n",
        )
        .unwrap();
        assert_eq!(stats.unsigned("hits"), Some(u64::MAX));
        assert_eq!(stats.signed("hits"), None);
        assert_eq!(
            (stats.signed("memory_available_bytes"), stats.unsigned("memory_available_bytes")),
            (Some(-5), None)
        );
        assert_eq!(stats.unsigned("1024 ns"), Some(7));
        assert_eq!(stats.text("dataset_name"), Some("tank/4 7 with space "));
        assert_eq!(stats.unsigned("a_name_of_more_than_31_characters_00"), Some(1));
        assert_eq!(stats.text("letters"), Some("abc"));
        assert_eq!(stats.text("hits"), None);
        assert_eq!(stats.values.len(), 6);
        assert_eq!(stats.counters().len(), 3);
    }

    #[test]
    fn malformed_lines_are_named() {
        assert_eq!(
            parse("hits 4 1\nmisses 4 x\n").unwrap_err().to_string(),
            "line 4: \"x\" is not a value of type 4"
        );
        assert_eq!(parse("hits\n").unwrap_err().line, 3);
        assert_eq!(parse("hits 4 -1\n").unwrap_err().line, 3);
        assert_eq!(parse_named("").unwrap_err().to_string(), "line 1: no line \"name type data\"");
        assert_eq!(parse("").unwrap(), NamedKstat::default());
    }
}
