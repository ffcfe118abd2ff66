//! The table of `dataset get`.

use poolwright_base::units::format_size;
use poolwright_report::{Table, Terminal};
use poolwright_zfs::user::Value;

use crate::listing::listing;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The dataset or snapshot.
    Name,
    /// The property.
    Property,
    /// Its value.
    Value,
    /// Where the value comes from.
    Source,
}

impl Field {
    /// All columns with their names, in the default order.
    pub const ALL: [(&str, Field); 4] = [
        ("name", Field::Name),
        ("property", Field::Property),
        ("value", Field::Value),
        ("source", Field::Source),
    ];

    /// The column with this name.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, field)| field)
    }

    fn title(self) -> &'static str {
        match self {
            Field::Name => "NAME",
            Field::Property => "PROPERTY",
            Field::Value => "VALUE",
            Field::Source => "SOURCE",
        }
    }

    fn of(self, v: &Value, plain: bool) -> String {
        match self {
            Field::Name => v.dataset.clone(),
            Field::Property => v.property.clone(),
            Field::Source => v.source.clone(),
            Field::Value => match v.value.parse() {
                Ok(0u64) if v.property.ends_with("quota") && !plain => "none".to_owned(),
                Ok(bytes) if v.size && !plain => format_size(bytes),
                _ if v.property.ends_with("ratio") && !plain => format!("{}x", v.value),
                _ => v.value.clone(),
            },
        }
    }
}

/// Renders these columns of the values. With `plain`, sizes are in bytes; `script` is that of [`listing`].
pub fn text(values: &[Value], fields: &[Field], script: bool, plain: bool, terminal: Terminal) -> String {
    let table = Table::of(values)
        .each(fields, |table, field| table.left(field.title(), |value| field.of(value, plain)))
        .table();
    listing(&table, script, terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_unless_plain() {
        let value = |property: &str, value: &str, size| Value {
            dataset: "tank".into(),
            property: property.into(),
            value: value.into(),
            size,
            source: "local".into(),
        };
        let values = [
            value("recordsize", "16384", true),
            value("quota", "0", true),
            value("compressratio", "1.50", false),
            value("copies", "2", false),
        ];
        let shown = |plain| text(&values, &[Field::Value], true, plain, Terminal::PLAIN);
        assert_eq!(shown(false), "16K\nnone\n1.50x\n2\n");
        assert_eq!(shown(true), "16384\n0\n1.50\n2\n");
        assert_eq!(Field::from_name("source"), Some(Field::Source));
    }
}
