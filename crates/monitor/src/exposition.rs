//! Formats readings as text for Prometheus: the text format 0.0.4, and OpenMetrics 1.0.
//!
//! The two differ in the name of counters in `# TYPE` lines, in `# UNIT` lines and in the final `# EOF`. Other programs than
//! Prometheus read only the first.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::family::{FAMILIES, MetricFamily, Unit};
use crate::reading::HistogramReading;
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
    let by_type = by_type(all);
    for family in FAMILIES {
        let mut has_header = false;
        for resource in by_type.get(family.resource.name).into_iter().flatten() {
            let value = resource.value(family);
            let histogram = resource.histograms.iter().find(|reading| std::ptr::eq(reading.family, *family));
            if !has_header && (value.is_some() || histogram.is_some()) {
                header(&mut text, family, format);
                has_header = true;
            }
            if let Some(value) = value {
                line(&mut text, family.name, "", resource, None, value);
            }
            if let Some(histogram) = histogram {
                buckets(&mut text, histogram, resource, format);
            }
        }
    }
    if format == TextFormat::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

/// The resources by the name of their type.
fn by_type<'a>(all: &[&'a Readings]) -> BTreeMap<&'static str, Vec<&'a Resource>> {
    let mut by_type: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for resource in all.iter().flat_map(|readings| &readings.resources) {
        by_type.entry(resource.of.name).or_default().push(resource);
    }
    by_type
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

/// The buckets of a histogram. The sum of its values is not known, and OpenMetrics allows `_count` only together with `_sum`.
fn buckets(text: &mut String, histogram: &HistogramReading, resource: &Resource, format: TextFormat) {
    let name = histogram.family.name;
    let mut total = 0;
    for (bound, count) in histogram.cumulative() {
        line(text, name, "_bucket", resource, Some(bound), count as f64);
        total = count;
    }
    if format == TextFormat::Prometheus {
        line(text, name, "_count", resource, None, total as f64);
    }
}

/// One sample. `bound` is the value of the label `le`.
fn line(text: &mut String, name: &str, suffix: &str, resource: &Resource, bound: Option<f64>, value: f64) {
    text.push_str(name);
    text.push_str(suffix);
    let labels = resource.of.labels.iter().zip(&resource.labels).filter(|(_, value)| !value.is_empty());
    let mut separator = '{';
    for (name, value) in labels {
        let _ = write!(text, "{separator}{name}=\"{}\"", Escaped(value, true));
        separator = ',';
    }
    if let Some(bound) = bound {
        let _ = match bound.is_finite() {
            true => write!(text, "{separator}le=\"{bound}\""),
            false => write!(text, "{separator}le=\"+Inf\""),
        };
        separator = ',';
    }
    if separator == ',' {
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
    use crate::family::{
        ARC, ARC_SIZE, DATASET, DATASET_READS, DATASET_USED, POOL, POOL_OPEN, VDEV_LATENCY, VDEV_QUEUE,
    };

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
    fn buckets_are_cumulative() {
        let mut readings = Readings::default();
        let queue = readings.add(&VDEV_QUEUE, ["kernel", "tank", "sda", "normal", "disk_read"]);
        queue.histogram(&VDEV_LATENCY, &[0.001, 0.5], Box::from([3, 0, 2]));
        let labels = r#"engine="kernel",pool="tank",vdev="sda",class="normal",queue="disk_read""#;
        let bucket = |bound: &str, count: u64| {
            format!("poolwright_vdev_latency_seconds_bucket{{{labels},le=\"{bound}\"}} {count}\n")
        };
        let expected = [bucket("0.001", 3), bucket("0.5", 3), bucket("+Inf", 5)].concat();
        let plain = text(&[&readings], TextFormat::Prometheus);
        assert!(plain.contains("# TYPE poolwright_vdev_latency_seconds histogram\n"));
        assert!(
            plain.ends_with(&format!("{expected}poolwright_vdev_latency_seconds_count{{{labels}}} 5\n")),
            "{plain}"
        );
        assert!(text(&[&readings], TextFormat::OpenMetrics).ends_with(&format!("{expected}# EOF\n")));
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
