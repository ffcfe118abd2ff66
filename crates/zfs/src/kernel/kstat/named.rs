//! The format of named kstats.

use std::collections::BTreeMap;

use super::error::MalformedKstat;

/// A named kstat: numbers by their names. Which names there are depends on the version of the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedKstat {
    /// The integers that are not negative.
    pub values: BTreeMap<String, u64>,
}

impl NamedKstat {
    /// An integer. Returns `None` if the kstat has no such value, or it is negative.
    pub fn unsigned(&self, name: &str) -> Option<u64> {
        self.values.get(name).copied()
    }
}

/// One value of a named kstat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KstatValue<'a> {
    /// Types 1, 3 and 5: signed integers.
    Signed(i64),
    /// Types 2, 4 and 6: unsigned integers.
    Unsigned(u64),
    /// Types 0 and 7: text.
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
        let number = match value {
            KstatValue::Signed(value) => u64::try_from(value).ok(),
            KstatValue::Unsigned(value) => Some(value),
            KstatValue::Text(_) => None,
        };
        values.extend(number.map(|number| (name.to_owned(), number)));
    })?;
    Ok(NamedKstat { values })
}

/// Parses as [`parse_named`], and calls `each` with the name and the value of each line.
pub(super) fn each_value<'a>(
    text: &'a str,
    mut each: impl FnMut(&'a str, KstatValue<'a>),
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
fn parse_value(line: &str) -> Result<Option<(&str, KstatValue<'_>)>, String> {
    let (name, kind, data) = split(line).ok_or("not a name, a type and a value")?;
    let malformed = || format!("{data:?} is not a value of type {kind}");
    let value = match kind {
        '0' => KstatValue::Text(data.trim_end()),
        '1' | '3' | '5' => KstatValue::Signed(data.trim_end().parse().map_err(|_| malformed())?),
        '2' | '4' | '6' => KstatValue::Unsigned(data.trim_end().parse().map_err(|_| malformed())?),
        // A dataset's name can end with a space.
        '7' => KstatValue::Text(data),
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
        assert_eq!(stats.unsigned("memory_available_bytes"), None, "it is negative");
        assert_eq!(stats.unsigned("1024 ns"), Some(7));
        assert_eq!(stats.unsigned("a_name_of_more_than_31_characters_00"), Some(1));
        assert_eq!(stats.unsigned("letters"), None);
        assert_eq!(stats.values.len(), 3);
        let spaces = parse_value("dataset_name                    7    tank/4 7 with space ");
        assert_eq!(spaces, Ok(Some(("dataset_name", KstatValue::Text("tank/4 7 with space ")))));
        assert_eq!(
            parse_value("letters                         0    abc             "),
            Ok(Some(("letters", KstatValue::Text("abc"))))
        );
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
