use std::collections::BTreeMap;

use super::*;

#[test]
fn every_row_is_found_by_the_text_of_its_name() {
    for metric in METRICS {
        assert_eq!(MetricName::from(metric.name.name()), metric.name);
    }
    assert_eq!(MetricName::from("objective"), MetricName::Objective);
}

#[test]
fn metrics_without_a_row_are_shown_last_under_their_own_names() {
    let zeal = MetricName::from("zeal");
    assert_eq!(
        ordered([&zeal, &MetricName::WorkRate, &MetricName::AllocatedBytes, &MetricName::WorkRate]),
        [&MetricName::AllocatedBytes, &MetricName::WorkRate, &zeal]
    );
    for name in [zeal, MetricName::Objective] {
        assert_eq!((name.title(), name.unit(), name.better()), (name.name(), Unit::None, Better::Lower));
    }
}

#[test]
fn the_schema_of_a_map_by_metric_allows_those_of_other_releases() {
    let mut generator = schemars::SchemaGenerator::default();
    let by_text = generator.subschema_for::<BTreeMap<String, f64>>();
    assert_eq!(generator.subschema_for::<BTreeMap<MetricName, f64>>(), by_text);
    assert_eq!(generator.subschema_for::<MetricName>().get("type").unwrap(), "string");
}
