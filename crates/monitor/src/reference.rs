//! The reference of the metrics, in Markdown.

use std::fmt::Write as _;

use crate::family::{FAMILIES, FamilyType, MetricFamily, RESOURCES, ResourceType, Unit};

const INTRODUCTION: &str = "\
# Metrics

`poolwright serve` exports these metrics. A metric that a source cannot read is missing; a label with an empty value is omitted.
Prometheus adds the labels `job` and `instance`. Points in time are seconds since 1970.

A histogram has the series `NAME_bucket` with the label `le`, the upper bound of the bucket, and in Prometheus's text format
`NAME_count`. It has no `NAME_sum`, because ZFS does not count it.

<!-- generated from crates/monitor/src/family/table.rs; `REWRITE=1 cargo test --release -p poolwright-monitor --test integration docs` updates it -->
";

/// The page `docs/metrics.md`: all families, by the type of their resource.
pub fn metrics_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for resource in RESOURCES {
        let families: Vec<_> =
            FAMILIES.iter().filter(|family| std::ptr::eq(family.resource, *resource)).collect();
        if !families.is_empty() {
            section(&mut page, resource, &families);
        }
    }
    page
}

fn section(page: &mut String, resource: &ResourceType, families: &[&&MetricFamily]) {
    let (first, rest) = resource.name.split_at(1);
    let labels: Vec<String> = resource.labels.iter().map(|label| format!("`{label}`")).collect();
    let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
    let _ = writeln!(page, "\n## {}{rest}\n\n{}\n", first.to_uppercase(), resource.help);
    let _ = writeln!(page, "Labels: {labels}. {}\n", series(families));
    page.push_str("| metric | type | unit | meaning |\n| --- | --- | --- | --- |\n");
    for family in families {
        let unit = if family.unit == Unit::None { "" } else { family.unit.suffix() };
        let help = family.help.replace('|', "\\|");
        let _ = writeln!(page, "| `{}` | {} | {unit} | {help} |", family.name, family.kind.name());
    }
}

/// A sentence with the number of time series of one resource.
fn series(families: &[&&MetricFamily]) -> String {
    if families.iter().any(|family| family.kind == FamilyType::Histogram) {
        return "One series for each bucket.".to_owned();
    }
    match families.len() {
        1 => "One series.".to_owned(),
        count => format!("At most {count} series."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_metric_once_and_all_labels() {
        let page = metrics_page();
        for family in FAMILIES {
            assert_eq!(page.matches(&format!("| `{}` |", family.name)).count(), 1, "{}", family.name);
            let (before, _) = page.split_once(&format!("| `{}` |", family.name)).unwrap();
            let (_, section) = before.rsplit_once("\nLabels: ").unwrap();
            let labels = section.lines().next().unwrap();
            for label in family.resource.labels {
                assert!(labels.contains(&format!("`{label}`")), "{}: {labels}", family.name);
            }
        }
    }
}
