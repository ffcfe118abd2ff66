//! The options of each kind of panel, and the transformations of tables.

use serde_json::{Value, json};

use super::ref_id;
use crate::panel::{Panel, PanelKind};

/// Grafana's name of the kind.
pub(super) fn type_name(kind: PanelKind) -> &'static str {
    match kind {
        PanelKind::Stat => "stat",
        PanelKind::Graph => "timeseries",
        PanelKind::Table => "table",
        PanelKind::Heatmap => "heatmap",
        PanelKind::StateTimeline => "state-timeline",
        PanelKind::Bars => "bargauge",
    }
}

/// The options of a panel.
pub(super) fn options(shown: &Panel) -> Value {
    let reduce = json!({ "calcs": ["lastNotNull"], "fields": "", "values": false });
    match shown.kind {
        PanelKind::Stat => json!({
            "reduceOptions": reduce,
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "textMode": "value",
            "showPercentChange": false,
            "percentChangeColorMode": "standard",
            "wideLayout": true,
        }),
        PanelKind::Graph => json!({
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "showLegend": true,
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": { "mode": "multi", "sort": "desc" },
        }),
        PanelKind::Table => json!({
            "showHeader": true,
            "cellHeight": "sm",
            "frameIndex": 0,
            "sortBy": [],
            "footer": { "show": false, "reducer": ["sum"], "countRows": false },
        }),
        PanelKind::Heatmap => heatmap(shown),
        PanelKind::StateTimeline => json!({
            "showValue": "auto",
            "mergeValues": true,
            "alignValue": "left",
            "rowHeight": 0.9,
            "legend": { "displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": [] },
            "tooltip": { "mode": "single", "sort": "none" },
        }),
        PanelKind::Bars => json!({
            "reduceOptions": reduce,
            "displayMode": "basic",
            "orientation": "horizontal",
            "valueMode": "color",
            "namePlacement": "auto",
            "showUnfilled": true,
            "sizing": "auto",
            "minVizWidth": 8,
            "minVizHeight": 16,
            "maxVizHeight": 300,
            "legend": { "displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": [] },
        }),
    }
}

/// A heat map of buckets that Prometheus counts: nothing is calculated, and the colour is the rate.
fn heatmap(shown: &Panel) -> Value {
    json!({
        "calculate": false,
        "cellGap": 1,
        "cellValues": { "unit": "ops" },
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "fill": "dark-orange",
            "scale": "exponential",
            "exponent": 0.5,
            "steps": 64,
            "reverse": false,
        },
        "exemplars": { "color": "rgba(255,0,255,0.7)" },
        "filterValues": { "le": 1e-9 },
        "legend": { "show": true },
        "rowsFrame": { "layout": "auto" },
        "showValue": "never",
        "tooltip": { "mode": "single", "yHistogram": true },
        "yAxis": { "axisPlacement": "left", "reverse": false, "unit": shown.unit.id() },
    })
}

/// Joins the queries of a table by their labels, hides the time, and names the columns.
pub(super) fn table_transformations(shown: &Panel) -> Value {
    let hidden = ["Time", "__name__", "job"].map(|name| (name.to_owned(), json!(true)));
    let renamed = shown.queries.iter().enumerate().map(|(at, query)| {
        let value =
            if shown.queries.len() == 1 { "Value".to_owned() } else { format!("Value #{}", ref_id(at)) };
        (value, json!(query.legend))
    });
    json!([
        { "id": "merge", "options": {} },
        {
            "id": "organize",
            "options": {
                "excludeByName": hidden.into_iter().collect::<serde_json::Map<_, _>>(),
                "indexByName": {},
                "renameByName": renamed.collect::<serde_json::Map<_, _>>(),
            },
        },
    ])
}
