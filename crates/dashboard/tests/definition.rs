//! The definition keeps the rules of dashboards: units fit the queries, legends name labels that exist, every panel says what it
//! shows, and dashboards and links are known.

use std::collections::BTreeSet;

use poolwright_dashboard::query::Dimension;
use poolwright_dashboard::{Board, FOREIGN, Panel, PanelKind, PanelUnit, QueryMetric, boards};
use poolwright_monitor::FAMILIES;

fn all_panels(boards: &[Board]) -> impl Iterator<Item = (&Board, &Panel)> {
    boards.iter().flat_map(|board| board.panels().map(move |panel| (board, panel)))
}

/// The labels that a legend names.
fn legend_labels(legend: &str) -> Vec<&str> {
    legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap()).collect()
}

#[test]
fn units_fit_the_queries() {
    for (board, panel) in all_panels(&boards()) {
        for shown in &panel.queries {
            let unit = shown.column.map_or(panel.unit, |(unit, ..)| unit);
            let expected = match panel.kind {
                // The cells of a heat map are rates; the unit is that of the bounds.
                PanelKind::Heatmap => Dimension { bytes: 0, seconds: -1 },
                _ => unit.dimension(),
            };
            let title = format!("{}, {}, {}", board.uid, panel.title, shown.legend);
            assert_eq!(shown.query.dimension(), expected, "{title}: the unit {unit:?}");
        }
    }
}

#[test]
fn legends_name_labels_of_the_result() {
    for (board, panel) in all_panels(&boards()) {
        let title = format!("{}, {}", board.uid, panel.title);
        let mut legends = BTreeSet::new();
        for shown in &panel.queries {
            let labels = shown.query.labels();
            assert!(legends.insert(shown.legend), "{title}: two queries have the legend {:?}", shown.legend);
            for label in legend_labels(shown.legend) {
                assert!(labels.contains(&label), "{title}: {{{{{label}}}}} is not one of {labels:?}");
            }
            // Without a label in the legend, several series would have the same name.
            let is_named = matches!(panel.kind, PanelKind::Table) || shown.legend.contains("{{");
            assert!(is_named || labels.is_empty(), "{title}: the legend names none of {labels:?}");
        }
    }
}

#[test]
fn the_columns_of_a_table_have_the_same_rows() {
    for (board, panel) in all_panels(&boards()).filter(|(_, panel)| panel.kind == PanelKind::Table) {
        let rows: BTreeSet<Vec<&str>> =
            panel.queries.iter().map(|shown| shown.query.labels().to_vec()).collect();
        assert_eq!(rows.len(), 1, "{}, {}", board.uid, panel.title);
    }
}

#[test]
fn panels_and_dashboards_are_described_and_unique() {
    let boards = boards();
    let uids: BTreeSet<&str> = boards.iter().map(|board| board.uid).collect();
    assert_eq!(uids.len(), boards.len());
    for board in &boards {
        assert!(board.uid.starts_with("poolwright-") && board.uid.len() <= 40, "{}", board.uid);
        assert!(board.help.ends_with('.'), "{}", board.uid);
        let mut titles = BTreeSet::new();
        for row in &board.rows {
            for panel in &row.panels {
                assert!(titles.insert((row.title, panel.title)), "{}: {} twice", board.uid, panel.title);
                assert!(!panel.queries.is_empty(), "{}: {} is empty", board.uid, panel.title);
                let description = panel.description();
                for metric in panel.queries.iter().flat_map(|shown| shown.query.metrics()) {
                    assert!(description.contains(metric.name()), "{}: {description}", panel.title);
                }
                assert!(panel.note.is_empty() || panel.note.ends_with('.'), "{}", panel.note);
            }
        }
    }
}

#[test]
fn links_lead_to_dashboards_that_have_the_variables() {
    let boards = boards();
    for (board, panel) in all_panels(&boards) {
        let Some((uid, labels)) = panel.leads_to else { continue };
        let target = boards.iter().find(|board| board.uid == uid);
        let target = target.unwrap_or_else(|| panic!("{} leads to {uid}", panel.title));
        for label in labels {
            assert!(target.variables.iter().any(|variable| variable.name == *label), "{uid} has no ${label}");
            for shown in &panel.queries {
                assert!(shown.query.labels().contains(label), "{}, {}: {label}", board.uid, panel.title);
            }
        }
    }
}

/// A metric that no dashboard shows has probably been forgotten.
#[test]
fn every_metric_is_on_a_dashboard() {
    let boards = boards();
    let shown: Vec<QueryMetric> = all_panels(&boards)
        .flat_map(|(_, panel)| &panel.queries)
        .flat_map(|shown| shown.query.metrics())
        .chain(boards.iter().flat_map(|board| &board.variables).filter_map(
            |variable| match variable.choice {
                poolwright_dashboard::VariableValues::Label { metric, .. } => Some(metric),
                _ => None,
            },
        ))
        .collect();
    // Figures that explain no behaviour over time.
    let exempt = [
        "poolwright_pool_import_time_seconds",
        "poolwright_pool_readonly",
        "poolwright_pool_scan_start_time_seconds",
    ];
    let hidden: BTreeSet<&str> = FAMILIES
        .iter()
        .filter(|family| !shown.contains(&QueryMetric::Own(family)))
        .map(|family| family.name)
        .collect();
    assert_eq!(hidden, BTreeSet::from(exempt), "show the metric on a dashboard, or add it to the list");
    for metric in FOREIGN {
        assert!(shown.contains(&QueryMetric::Foreign(metric)), "{} is used nowhere", metric.name);
    }
}

#[test]
fn units_have_different_names() {
    use PanelUnit::*;
    let all = [Count, Percent, Multiple, Bytes, BytesPerSecond, Seconds, PerSecond];
    assert_eq!(all.map(PanelUnit::id).into_iter().collect::<BTreeSet<_>>().len(), all.len());
}
