//! Parses every query of the dashboards in `packaging/grafana` with a parser of PromQL, and compares the metrics and labels with the
//! table of metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use poolwright_monitor::{FAMILIES, FamilyType};
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};
use serde_json::Value;

const DATABASE: &[&str] = &["datid", "datname"];

/// Metrics of other programs and their labels: Prometheus itself, postgres_exporter
/// (<https://github.com/prometheus-community/postgres_exporter>) and mysqld_exporter
/// (<https://github.com/prometheus/mysqld_exporter>).
const FOREIGN: &[(&str, &[&str])] = &[
    ("up", &[]),
    ("scrape_duration_seconds", &[]),
    ("scrape_samples_scraped", &[]),
    ("pg_up", &[]),
    ("pg_stat_database_xact_commit", DATABASE),
    ("pg_stat_database_xact_rollback", DATABASE),
    ("pg_stat_database_blks_read", DATABASE),
    ("pg_stat_database_blks_hit", DATABASE),
    ("pg_stat_database_blk_read_time", DATABASE),
    ("pg_stat_database_temp_bytes", DATABASE),
    ("pg_stat_database_numbackends", DATABASE),
    ("pg_database_size_bytes", &["datname"]),
    ("mysql_up", &[]),
    ("mysql_global_status_queries", &[]),
    ("mysql_global_status_commands_total", &["command"]),
    ("mysql_global_status_innodb_row_ops_total", &["operation"]),
    ("mysql_global_status_innodb_data_read", &[]),
    ("mysql_global_status_innodb_data_written", &[]),
    ("mysql_global_status_innodb_data_fsyncs", &[]),
    ("mysql_global_status_innodb_os_log_written", &[]),
    ("mysql_global_status_innodb_buffer_pool_read_requests", &[]),
    ("mysql_global_status_innodb_buffer_pool_reads", &[]),
    ("mysql_global_variables_innodb_buffer_pool_size", &[]),
];

/// Metrics that no dashboard shows: they explain no behaviour over time.
const NOT_SHOWN: &[&str] = &[
    "poolwright_pool_import_time_seconds",
    "poolwright_pool_readonly",
    "poolwright_pool_scan_start_time_seconds",
];

/// The labels of each metric by its name in queries.
fn known() -> BTreeMap<String, BTreeSet<&'static str>> {
    let with = |labels: &[&'static str], more: &[&'static str]| {
        labels.iter().chain(&["job", "instance"]).chain(more).copied().collect::<BTreeSet<_>>()
    };
    let own = FAMILIES.iter().map(|family| match family.kind {
        FamilyType::Histogram => (format!("{}_bucket", family.name), with(family.resource.labels, &["le"])),
        FamilyType::Gauge | FamilyType::Counter => {
            (family.name.to_owned(), with(family.resource.labels, &[]))
        }
    });
    own.chain(FOREIGN.iter().map(|(name, labels)| ((*name).to_owned(), with(labels, &[])))).collect()
}

/// The dashboards, by the names of their files.
fn dashboards() -> BTreeMap<String, Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana");
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), serde_json::from_str(&text).unwrap())
        })
        .collect()
}

/// The text with an example in the place of each variable, and the names of the variables.
fn substituted(expression: &str) -> (String, BTreeSet<String>) {
    let (mut text, mut names, mut rest) = (String::new(), BTreeSet::new(), expression);
    while let Some((before, after)) = rest.split_once('$') {
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        text += before;
        text += match name {
            "__rate_interval" => "5m",
            "__range" => "6h",
            "top" => "10",
            _ => "x",
        };
        names.insert(name.to_owned());
        rest = after;
    }
    (text + rest, names)
}

/// Calls `visit` with each selector, and returns the labels that the result can have.
fn labels<'a>(expr: &Expr, visit: &mut dyn FnMut(&VectorSelector) -> BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    match expr {
        Expr::VectorSelector(selector) => visit(selector),
        Expr::MatrixSelector(matrix) => visit(&matrix.vs),
        Expr::Paren(paren) => labels(&paren.expr, visit),
        Expr::Unary(unary) => labels(&unary.expr, visit),
        Expr::Subquery(subquery) => labels(&subquery.expr, visit),
        Expr::Call(call) => {
            let mut of_arguments: BTreeSet<&str> =
                call.args.args.iter().flat_map(|argument| labels(argument, visit)).collect();
            if call.func.name == "histogram_quantile" {
                assert!(of_arguments.remove("le"), "a quantile without le: {expr}");
            }
            of_arguments
        }
        Expr::Aggregate(aggregate) => {
            let inner = labels(&aggregate.expr, visit);
            match &aggregate.modifier {
                Some(LabelModifier::Include(by)) => {
                    let by = by.labels.iter();
                    by.map(|label| *inner.get(label.as_str()).unwrap_or_else(|| panic!("by {label}: {expr}")))
                        .collect()
                }
                Some(LabelModifier::Exclude(_)) => panic!("without is not used: {expr}"),
                // topk and bottomk keep the labels, sums and counts have none.
                None if aggregate.param.is_some() => inner,
                None => BTreeSet::new(),
            }
        }
        Expr::Binary(binary) => {
            let (left, right) = (labels(&binary.lhs, visit), labels(&binary.rhs, visit));
            let modifier = binary.modifier.as_ref();
            for on in modifier
                .and_then(|modifier| modifier.matching.as_ref())
                .iter()
                .flat_map(|on| &on.labels().labels)
            {
                assert!(left.contains(on.as_str()) && right.contains(on.as_str()), "on {on}: {expr}");
            }
            if left.is_empty() { right } else { left }
        }
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => BTreeSet::new(),
    }
}

/// The selector and the label of a variable with the values of a label.
fn label_values(variable: &Value) -> Option<(VectorSelector, &str)> {
    let query = variable["query"]["query"].as_str()?;
    let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
    let (series, label) = inner.rsplit_once(", ").unwrap();
    match parser::parse(&substituted(series).0) {
        Ok(Expr::VectorSelector(selector)) => Some((selector, label)),
        other => panic!("{query}: {other:?}"),
    }
}

#[test]
fn queries_parse_and_name_known_metrics_and_labels() {
    let known = known();
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for (name, dashboard) in dashboards() {
        let declared: BTreeSet<&str> = dashboard["templating"]["list"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|variable| variable["name"].as_str())
            .collect();
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        shown.extend(variables.iter().filter_map(|variable| label_values(variable)?.0.name));
        let panels = dashboard["panels"].as_array().unwrap();
        for target in panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten() {
            let expression = target["expr"].as_str().unwrap();
            let (text, variables) = substituted(expression);
            for variable in variables.iter().filter(|variable| !variable.starts_with("__")) {
                assert!(
                    declared.contains(variable.as_str()),
                    "{name} has no variable {variable}: {expression}"
                );
            }
            let parsed = parser::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}: {expression}"));
            let result = labels(&parsed, &mut |selector| {
                let metric = selector.name.as_deref().unwrap();
                let of_metric =
                    known.get(metric).unwrap_or_else(|| panic!("{name}: unknown metric {metric}"));
                shown.insert(metric.to_owned());
                for matcher in &selector.matchers.matchers {
                    assert!(
                        of_metric.contains(matcher.name.as_str()),
                        "{name}: {} of {metric}",
                        matcher.name
                    );
                }
                of_metric.clone()
            });
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
                assert!(result.contains(label), "{name}: {{{{{label}}}}} of {expression}");
            }
        }
    }
    let hidden: BTreeSet<&str> =
        known.keys().map(String::as_str).filter(|metric| !shown.contains(*metric)).collect();
    assert_eq!(
        hidden,
        NOT_SHOWN.iter().copied().collect(),
        "show the metric on a dashboard, or add it to the list"
    );
}

#[test]
fn the_parser_rejects_wrong_queries() {
    for wrong in ["sum by (pool (up)", "rate(up)", "topk(up)", "up{pool=x}", "up[5m"] {
        assert!(parser::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn variables_ask_for_known_labels() {
    let known = known();
    for (name, dashboard) in dashboards() {
        for variable in dashboard["templating"]["list"].as_array().unwrap() {
            let Some((selector, label)) = label_values(variable) else { continue };
            let labels = &known[selector.name.as_deref().unwrap()];
            assert!(labels.contains(label), "{name}: {variable}");
            let mut matchers = selector.matchers.matchers.iter();
            assert!(matchers.all(|matcher| labels.contains(matcher.name.as_str())), "{name}: {variable}");
        }
    }
}

#[test]
fn panels_follow_good_practice() {
    for (name, dashboard) in dashboards() {
        assert_eq!(dashboard["uid"].as_str(), Some(name.as_str()), "the file has the name of the uid");
        let text = dashboard.to_string();
        assert!(!text.contains("\"uid\":\"prometheus\""), "{name}: the data source is a variable");
        let mut places: Vec<(u64, u64, u64, u64)> = Vec::new();
        let mut ids = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{name}: {title}");
            let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            let (x, y, w, h) = (place("x"), place("y"), place("w"), place("h"));
            assert!(x + w <= 24, "{name}: {title}");
            let overlaps = places
                .iter()
                .any(|(ox, oy, ow, oh)| x < ox + ow && *ox < x + w && y < oy + oh && *oy < y + h);
            assert!(!overlaps, "{name}: {title} covers another panel");
            places.push((x, y, w, h));
            if panel["type"] == "row" {
                continue;
            }
            let description = panel["description"].as_str().unwrap();
            assert!(description.len() > 20, "{name}: {title}");
            for target in panel["targets"].as_array().unwrap() {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{name}: {title}");
                let expression = target["expr"].as_str().unwrap();
                for function in ["rate(", "increase("] {
                    for range in expression.split(function).skip(1) {
                        let range = range.split('[').nth(1).unwrap().split(']').next().unwrap();
                        assert!(["$__rate_interval", "$__range"].contains(&range), "{name}: {expression}");
                    }
                }
            }
        }
    }
}
