//! Formats readings as text for Prometheus: the text format 0.0.4, and OpenMetrics 1.0.
//!
//! The two differ in the name of counters in `# TYPE` lines, in `# UNIT` lines and in the final `# EOF`. Programs other than Prometheus
//! read only the first.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

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

/// The text of readings, in pieces, so that a host with many datasets needs no memory for the whole.
#[derive(Debug)]
pub struct TextPieces {
    all: Vec<Arc<Readings>>,
    format: TextFormat,
    /// For each type of resource, by its name: the places of its resources in `all`.
    places: HashMap<&'static str, Vec<(u32, u32)>>,
    /// The family whose resources are being formatted: its number in [`FAMILIES`], and the number of the next resource.
    family: usize,
    next: usize,
    has_header: bool,
    is_ended: bool,
}

/// The length of a piece in bytes, except that of the last.
pub(crate) const PIECE: usize = 64 << 10;

impl TextPieces {
    /// The text of the readings of all sources. Families without a reading are omitted.
    pub fn new(all: Vec<Arc<Readings>>, format: TextFormat) -> TextPieces {
        let mut places: HashMap<_, Vec<_>> = HashMap::new();
        for (source, readings) in (0..).zip(&all) {
            for (at, resource) in (0..).zip(&readings.resources) {
                places.entry(resource.of.name).or_default().push((source, at));
            }
        }
        TextPieces { all, format, places, family: 0, next: 0, has_header: false, is_ended: false }
    }

    /// Formats resources of one family until `text` is long enough. Returns whether the family is complete.
    fn add_family(&mut self, family: &'static MetricFamily, text: &mut String) -> bool {
        let places = self.places.get(family.resource.name).map_or(&[][..], Vec::as_slice);
        for (source, at) in places.iter().skip(self.next) {
            self.next += 1;
            let resource = &self.all[*source as usize].resources[*at as usize];
            let value = resource.value(family);
            let histogram = resource.histograms.iter().find(|reading| std::ptr::eq(reading.family, family));
            if !self.has_header && (value.is_some() || histogram.is_some()) {
                header(text, family, self.format);
                self.has_header = true;
            }
            if let Some(value) = value {
                line(text, family.name, "", resource, None, value);
            }
            if let Some(histogram) = histogram {
                buckets(text, histogram, resource, self.format);
            }
            if text.len() >= PIECE {
                return false;
            }
        }
        true
    }
}

impl Iterator for TextPieces {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.is_ended {
            return None;
        }
        let mut text = String::with_capacity(PIECE + (4 << 10));
        while let Some(family) = FAMILIES.get(self.family) {
            if !self.add_family(family, &mut text) {
                return Some(text);
            }
            (self.family, self.next, self.has_header) = (self.family + 1, 0, false);
        }
        self.is_ended = true;
        if self.format == TextFormat::OpenMetrics {
            text.push_str("# EOF\n");
        }
        Some(text)
    }
}

/// Formats the readings of all sources.
pub fn text(all: Vec<Arc<Readings>>, format: TextFormat) -> String {
    TextPieces::new(all, format).collect()
}

fn header(text: &mut String, family: &MetricFamily, format: TextFormat) {
    let name = match format {
        TextFormat::Prometheus => family.name,
        TextFormat::OpenMetrics => family.stem(),
    };
    let _ = write!(text, "# HELP {name} ");
    push_escaped(text, family.help, format == TextFormat::OpenMetrics);
    let _ = writeln!(text, "\n# TYPE {name} {}", family.kind.name());
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
        text.push(separator);
        text.push_str(name);
        text.push_str("=\"");
        push_escaped(text, value, true);
        text.push('"');
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
    text.push(' ');
    push_number(text, value);
    text.push('\n');
}

/// Most values are integers, and formatting an integer is several times faster than formatting an `f64`.
fn push_number(text: &mut String, value: f64) {
    let integer = value as u64;
    let _ = match integer as f64 == value && integer < 1 << 53 {
        true => write!(text, "{integer}"),
        false => write!(text, "{value}"),
    };
}

/// Adds `from` with `\`, line feeds and, if requested, `"` escaped.
fn push_escaped(text: &mut String, from: &str, quotes: bool) {
    let is_special = |byte: u8| byte == b'\\' || byte == b'\n' || (quotes && byte == b'"');
    if !from.bytes().any(is_special) {
        text.push_str(from);
        return;
    }
    for c in from.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\\' => text.push_str("\\\\"),
            '"' if quotes => text.push_str("\\\""),
            other => text.push(other),
        }
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
        let plain = text(vec![Arc::new(example())], TextFormat::Prometheus);
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
        let open = text(vec![Arc::new(example())], TextFormat::OpenMetrics);
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
        let all = vec![Arc::new(readings)];
        let plain = text(all.clone(), TextFormat::Prometheus);
        assert!(plain.contains("# TYPE poolwright_vdev_latency_seconds histogram\n"));
        assert!(
            plain.ends_with(&format!("{expected}poolwright_vdev_latency_seconds_count{{{labels}}} 5\n")),
            "{plain}"
        );
        assert!(text(all, TextFormat::OpenMetrics).ends_with(&format!("{expected}# EOF\n")));
    }

    #[test]
    fn a_long_text_has_pieces_and_each_header_once() {
        let mut readings = Readings::default();
        for number in 0..5000 {
            let dataset = readings.add(&DATASET, ["kernel", "tank", &format!("tank/{number}")]);
            dataset.count(&DATASET_USED, 1).count(&DATASET_READS, number);
        }
        let pieces: Vec<String> = TextPieces::new(vec![Arc::new(readings)], TextFormat::Prometheus).collect();
        assert!(pieces.len() > 5 && pieces.iter().all(|piece| piece.len() < PIECE + 1024));
        let text = pieces.concat();
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE")).count(), 2);
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 10_000);
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
