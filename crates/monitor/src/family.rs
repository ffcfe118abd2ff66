//! The table of metrics: each family's name, type, unit, labels and meaning.
//!
//! A name is `poolwright_RESOURCE_WHAT`, followed by the unit and, for counters, `_total`, as Prometheus recommends.

mod table;

pub use table::*;

/// How a metric changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyType {
    /// A level.
    Gauge,
    /// A total that only increases, until the process or the module that counts is restarted.
    Counter,
    /// Numbers of observations by their value, which only increase.
    Histogram,
}

impl FamilyType {
    /// The word of the exposition formats.
    pub fn name(self) -> &'static str {
        match self {
            FamilyType::Gauge => "gauge",
            FamilyType::Counter => "counter",
            FamilyType::Histogram => "histogram",
        }
    }
}

/// The unit of a metric. Prometheus uses base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things, or a condition (0 or 1).
    None,
    /// Bytes.
    Bytes,
    /// Seconds; a point in time is in seconds since 1970.
    Seconds,
    /// A ratio; 1 is the whole.
    Ratio,
}

impl Unit {
    /// The suffix of the metric's name, without `_`; empty for [`Unit::None`].
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
            Unit::Ratio => "ratio",
        }
    }
}

/// A type of resource that has metrics.
#[derive(Debug, PartialEq, Eq)]
pub struct ResourceType {
    /// The name, as it appears in the documentation.
    pub name: &'static str,
    /// The names of the labels that identify a resource of this type.
    pub labels: &'static [&'static str],
    /// The meaning, as one or more sentences.
    pub help: &'static str,
}

/// A metric family: the same metric of all resources of one type.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricFamily {
    /// The full name.
    pub name: &'static str,
    /// How it changes.
    pub kind: FamilyType,
    /// Its unit.
    pub unit: Unit,
    /// The type of its resources.
    pub resource: &'static ResourceType,
    /// The meaning, as one or more sentences.
    pub help: &'static str,
}

impl MetricFamily {
    /// The name without `_total`: the family's name in OpenMetrics.
    pub fn stem(&self) -> &'static str {
        match self.kind {
            FamilyType::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            FamilyType::Gauge | FamilyType::Histogram => self.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        let mut names = BTreeSet::new();
        for family in FAMILIES {
            let name = family.name;
            assert!(names.insert(name), "{name} occurs twice");
            assert!(name.starts_with("poolwright_"), "{name}");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{name}"
            );
            assert_eq!(name.ends_with("_total"), family.kind == FamilyType::Counter, "{name}");
            assert!(family.stem().ends_with(family.unit.suffix()), "{name} has the unit {:?}", family.unit);
            if family.unit == Unit::None {
                let units = [Unit::Bytes, Unit::Seconds, Unit::Ratio];
                assert!(
                    !units.iter().any(|unit| family.stem().ends_with(unit.suffix())),
                    "{name} has no unit"
                );
            }
            assert!(family.help.ends_with('.'), "the help of {name} is a sentence: {}", family.help);
            assert!(RESOURCES.iter().any(|of| std::ptr::eq(*of, family.resource)), "{name}");
        }
    }
}
