//! A strict parser of the two text formats of metrics.

use std::collections::BTreeSet;

use poolwright_monitor::exposition::TextFormat;
use poolwright_monitor::{FAMILIES, FamilyType, MetricFamily};

/// One sample.
#[derive(Clone, Debug)]
pub struct ParsedSample<'a> {
    /// The whole line.
    pub line: &'a str,
    /// The name of the family, and for a histogram a suffix.
    pub name: &'a str,
    /// Names and values of the labels. The values keep their escapes.
    pub labels: Vec<(&'a str, &'a str)>,
    pub value: f64,
}

/// A family with its samples.
#[derive(Debug)]
pub struct ParsedFamily<'a> {
    pub family: &'static MetricFamily,
    pub samples: Vec<ParsedSample<'a>>,
}

/// Parses a whole output. Panics unless it is valid: each family is declared once, as the table has it and in the table's order, with
/// all its samples below; the labels are those of its resource; no sample occurs twice; buckets are cumulative.
pub fn parse(text: &str, format: TextFormat) -> Vec<ParsedFamily<'_>> {
    let body = match format {
        TextFormat::Prometheus => text,
        TextFormat::OpenMetrics => text.strip_suffix("# EOF\n").expect("OpenMetrics ends with # EOF"),
    };
    assert!(body.is_empty() || body.ends_with('\n'), "the last line is cut");
    let (mut families, mut known) = (Vec::<ParsedFamily<'_>>::new(), FAMILIES.iter());
    let mut series = BTreeSet::new();
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            let family = *known.find(|family| declared(family, format) == name).unwrap_or_else(|| {
                panic!("{name} is declared twice, not in the order of the table, or not in the table")
            });
            assert!(!help.is_empty(), "{name}");
            assert_eq!(lines.next(), Some(format!("# TYPE {name} {}", family.kind.name()).as_str()));
            let unit = format!("# UNIT {name} {}", family.unit.suffix());
            let has_unit = lines.next_if_eq(&unit.as_str()).is_some();
            let wants_unit = format == TextFormat::OpenMetrics && !family.unit.suffix().is_empty();
            assert_eq!(has_unit, wants_unit, "the unit of {name}");
            families.push(ParsedFamily { family, samples: Vec::new() });
            continue;
        }
        let sample = sample(line);
        let ParsedFamily { family, samples } = families.last_mut().expect("a declaration comes first");
        check_sample(family, &sample, format);
        assert!(series.insert(line.rsplit_once(' ').unwrap().0), "{line} occurs twice");
        samples.push(sample);
    }
    for ParsedFamily { family, samples } in &families {
        assert!(!samples.is_empty(), "{} has no samples", family.name);
        if family.kind == FamilyType::Histogram {
            check_buckets(samples);
        }
    }
    families
}

fn declared(family: &MetricFamily, format: TextFormat) -> &'static str {
    match format {
        TextFormat::Prometheus => family.name,
        TextFormat::OpenMetrics => family.stem(),
    }
}

fn sample(line: &str) -> ParsedSample<'_> {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line:?} is not a sample"));
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, quoted) =
                rest.split_once("=\"").unwrap_or_else(|| panic!("{line:?} has a bad label"));
            assert!(label.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{line}");
            let mut is_escaped = false;
            let end = quoted.find(|c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            let (value, after) =
                quoted.split_at(end.unwrap_or_else(|| panic!("{line:?} has no end of a label")));
            labels.push((label, value));
            rest = &after[1..];
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap_or_else(|| panic!("{line:?} has no }}"));
    }
    let value = rest.strip_prefix(' ').and_then(|value| value.parse().ok());
    ParsedSample { line, name, labels, value: value.unwrap_or_else(|| panic!("{line:?} has no value")) }
}

/// The name is that of the family, and the labels are those of its resource in their order. Empty ones are omitted.
fn check_sample(family: &MetricFamily, sample: &ParsedSample<'_>, format: TextFormat) {
    let suffix = sample.name.strip_prefix(family.name);
    let suffix = suffix.unwrap_or_else(|| panic!("{} is below {}", sample.line, family.name));
    let mut labels: &[_] = &sample.labels;
    match (family.kind, suffix) {
        (FamilyType::Histogram, "_bucket") => {
            let (bound, others) = labels.split_last().unwrap();
            assert_eq!(bound.0, "le", "{}", sample.line);
            labels = others;
        }
        (FamilyType::Histogram, "_count") if format == TextFormat::Prometheus => {}
        (FamilyType::Gauge | FamilyType::Counter, "") => {}
        _ => panic!("{} has the wrong suffix", sample.line),
    }
    let mut known = family.resource.labels.iter();
    let is_known = |(label, value): &(&str, &str)| known.any(|known| known == label) && !value.is_empty();
    assert!(labels.iter().all(is_known), "{}: not labels of {}", sample.line, family.resource.name);
    assert!(family.kind == FamilyType::Gauge || sample.value >= 0.0, "{}", sample.line);
}

/// The labels without the bound of a bucket.
fn without_bound<'a, 's>(sample: &'s ParsedSample<'a>) -> &'s [(&'a str, &'a str)] {
    match sample.labels.split_last() {
        Some((("le", _), others)) => others,
        _ => &sample.labels,
    }
}

/// The bounds and the counts of each histogram ascend to the bucket without a bound, whose count is that of the histogram.
fn check_buckets(samples: &[ParsedSample<'_>]) {
    for histogram in samples.chunk_by(|one, next| without_bound(one) == without_bound(next)) {
        let (buckets, total): (Vec<_>, Vec<_>) =
            histogram.iter().partition(|sample| sample.name.ends_with("_bucket"));
        let bounds: Vec<f64> =
            buckets.iter().map(|sample| sample.labels.last().unwrap().1.parse().unwrap()).collect();
        let first = histogram[0].line;
        assert!(bounds.is_sorted_by(|one, next| one < next), "the bounds of {first}");
        assert!(buckets.is_sorted_by(|one, next| one.value <= next.value), "the counts of {first}");
        assert_eq!(bounds.last(), Some(&f64::INFINITY), "the last bucket of {first}");
        let counts = total.iter().map(|total| total.value);
        assert!(counts.eq(buckets.last().map(|last| last.value).filter(|_| !total.is_empty())), "{first}");
    }
}
