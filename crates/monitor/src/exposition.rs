//! Formats readings as text for Prometheus: the text format 0.0.4, and OpenMetrics 1.0.
//!
//! The two differ in the name of counters in `# TYPE` lines, in `# UNIT` lines and in the final `# EOF`. Other programs than
//! Prometheus read only the first.

use std::fmt::Write as _;

use crate::family::{FAMILIES, MetricFamily, Unit};
use crate::{Readings, Resource};

/// A text format of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus's text format, version 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl TextFormat {
    /// The format that an HTTP client prefers by its `Accept` header.
    pub fn accepted(header: Option<&str>) -> TextFormat {
        /// The quality of the first media type with this name; 0 if the header does not have it.
        fn quality(header: &str, name: &str) -> f64 {
            let mut types = header.split(',').map(str::trim).filter(|media| media.starts_with(name));
            let Some(media) = types.next() else { return 0.0 };
            let value = media.split(';').filter_map(|part| part.trim().strip_prefix("q=")).next();
            value.map_or(1.0, |value| value.parse().unwrap_or(0.0))
        }
        let header = header.unwrap_or_default();
        let open_metrics = quality(header, "application/openmetrics-text");
        match open_metrics > 0.0 && open_metrics >= quality(header, "text/plain") {
            true => TextFormat::OpenMetrics,
            false => TextFormat::Prometheus,
        }
    }

    /// The `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Formats the readings of all sources. Families without a reading are omitted.
pub fn text(all: &[&Readings], format: TextFormat) -> String {
    let mut text = String::with_capacity(64 << 10);
    for family in FAMILIES {
        let resources = all
            .iter()
            .flat_map(|readings| &readings.resources)
            .filter(|resource| std::ptr::eq(resource.of, family.resource));
        let mut values =
            resources.filter_map(|resource| Some((resource, resource.value(family)?))).peekable();
        if values.peek().is_some() {
            header(&mut text, family, format);
        }
        for (resource, value) in values {
            line(&mut text, family, resource, value);
        }
    }
    if format == TextFormat::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn header(text: &mut String, family: &MetricFamily, format: TextFormat) {
    let name = match format {
        TextFormat::Prometheus => family.name,
        TextFormat::OpenMetrics => family.stem(),
    };
    let _ = writeln!(text, "# HELP {name} {}", Escaped(family.help, format == TextFormat::OpenMetrics));
    let _ = writeln!(text, "# TYPE {name} {}", family.kind.name());
    if format == TextFormat::OpenMetrics && family.unit != Unit::None {
        let _ = writeln!(text, "# UNIT {name} {}", family.unit.suffix());
    }
}

fn line(text: &mut String, family: &MetricFamily, resource: &Resource, value: f64) {
    text.push_str(family.name);
    let labels = resource.of.labels.iter().zip(&resource.labels).filter(|(_, value)| !value.is_empty());
    for (at, (name, value)) in labels.enumerate() {
        let separator = if at == 0 { '{' } else { ',' };
        let _ = write!(text, "{separator}{name}=\"{}\"", Escaped(value, true));
    }
    if resource.labels.iter().any(|value| !value.is_empty()) {
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

/// A text with `\`, line feeds and, if asked, `"` escaped.
struct Escaped<'a>(&'a str, bool);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.0;
        let special = |c: char| c == '\\' || c == '\n' || (self.1 && c == '"');
        while let Some(at) = rest.find(special) {
            f.write_str(&rest[..at])?;
            match rest.as_bytes()[at] {
                b'\n' => f.write_str("\\n")?,
                other => write!(f, "\\{}", char::from(other))?,
            }
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{ARC, ARC_SIZE, DATASET, DATASET_READS, DATASET_USED, POOL, POOL_OPEN};

    fn example() -> Readings {
        let mut readings = Readings::default();
        readings.add(&POOL, ["user", "tank"]).flag(&POOL_OPEN, true);
        readings
            .add(&DATASET, ["user", "tank", "tank/a\"b\\c\nd"])
            .count(&DATASET_USED, 1 << 40)
            .count(&DATASET_READS, 3);
        readings.add(&ARC, ["kernel", ""]).set(&ARC_SIZE, 0.5);
        readings
    }

    #[test]
    fn both_formats_escape_labels_and_omit_empty_ones() {
        let plain = text(&[&example()], TextFormat::Prometheus);
        let lines: Vec<&str> = plain.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                r#"poolwright_pool_open{engine="user",pool="tank"} 1"#,
                r#"poolwright_dataset_used_bytes{engine="user",pool="tank",dataset="tank/a\"b\\c\nd"} 1099511627776"#,
                r#"poolwright_dataset_reads_total{engine="user",pool="tank",dataset="tank/a\"b\\c\nd"} 3"#,
                r#"poolwright_arc_size_bytes{engine="kernel"} 0.5"#,
            ]
        );
        assert!(plain.contains("# TYPE poolwright_dataset_reads_total counter\n"));
        let open = text(&[&example()], TextFormat::OpenMetrics);
        assert!(open.contains("# TYPE poolwright_dataset_reads counter\n"));
        assert!(open.contains("# UNIT poolwright_dataset_used_bytes bytes\n"));
        assert!(open.ends_with("# EOF\n"));
    }

    #[test]
    fn the_client_chooses_the_format() {
        // The header that Prometheus 2.42 sends.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(TextFormat::accepted(Some(prometheus)), TextFormat::OpenMetrics);
        for other in [
            None,
            Some("*/*"),
            Some("text/plain"),
            Some("application/openmetrics-text;q=0.2, text/plain;q=0.9"),
        ] {
            assert_eq!(TextFormat::accepted(other), TextFormat::Prometheus, "{other:?}");
        }
    }
}
