//! Units, colours, names of states and links of a panel's values.

use serde_json::{Value, json};

use crate::panel::{CodedState, Panel, PanelKind, PanelThresholds, PanelUnit, StateColor};

/// The configuration of all fields of a panel, and of single columns of a table.
pub(super) fn field_config(shown: &Panel) -> Value {
    let mut defaults = json!({
        "unit": shown.unit.id(),
        "color": color(shown),
        "thresholds": thresholds(shown.limits),
        "mappings": mappings(shown.states),
        "custom": custom(shown),
        "links": links(shown),
    });
    if shown.kind == PanelKind::Heatmap {
        // The axis and the cells have units of their own.
        defaults = json!({ "custom": custom(shown) });
    }
    if let (Some(max), Value::Object(fields)) = (shown.max, &mut defaults) {
        fields.insert("min".to_owned(), json!(0));
        fields.insert("max".to_owned(), json!(max));
    }
    let overrides = shown.queries.iter().filter_map(|query| {
        let (unit, limits, states) = query.column?;
        Some(column(query.legend, unit, limits, states))
    });
    json!({ "defaults": defaults, "overrides": overrides.collect::<Vec<_>>() })
}

/// The properties of one column of a table.
fn column(title: &str, unit: PanelUnit, limits: PanelThresholds, states: &[CodedState]) -> Value {
    let mut properties = vec![json!({ "id": "unit", "value": unit.id() })];
    if !states.is_empty() {
        properties.push(json!({ "id": "mappings", "value": mappings(states) }));
    }
    if !matches!(limits, PanelThresholds::Same(_)) {
        properties.push(json!({ "id": "thresholds", "value": thresholds(limits) }));
    }
    if !states.is_empty() || !matches!(limits, PanelThresholds::Same(_)) {
        properties.push(json!({ "id": "custom.cellOptions", "value": { "type": "color-text" } }));
    }
    json!({ "matcher": { "id": "byName", "options": title }, "properties": properties })
}

fn color(shown: &Panel) -> Value {
    match shown.kind {
        PanelKind::Graph => json!({ "mode": "palette-classic" }),
        _ => json!({ "mode": "thresholds" }),
    }
}

fn thresholds(limits: PanelThresholds) -> Value {
    use StateColor::{Critical, Good, Warning};
    let (first, steps): (StateColor, Vec<(f64, StateColor)>) = match limits {
        PanelThresholds::Same(severity) => (severity, vec![]),
        PanelThresholds::Above(warning, critical) => (Good, vec![(warning, Warning), (critical, Critical)]),
        PanelThresholds::Below(critical, warning) => (Critical, vec![(critical, Warning), (warning, Good)]),
        PanelThresholds::WarningFrom(warning) => (Good, vec![(warning, Warning)]),
        PanelThresholds::CriticalFrom(critical) => (Good, vec![(critical, Critical)]),
        PanelThresholds::WarningBelow(good) => (Warning, vec![(good, Good)]),
    };
    let step =
        |value: Option<f64>, severity: StateColor| json!({ "value": value, "color": severity.color() });
    let others = steps.into_iter().map(|(value, severity)| step(Some(value), severity));
    let steps: Vec<Value> = [step(None, first)].into_iter().chain(others).collect();
    json!({ "mode": "absolute", "steps": steps })
}

fn mappings(states: &[CodedState]) -> Value {
    if states.is_empty() {
        return json!([]);
    }
    let option = |(index, state): (usize, &CodedState)| {
        let text = json!({ "text": state.name, "color": state.severity.color(), "index": index });
        (state.code.to_string(), text)
    };
    json!([{
        "type": "value",
        "options": states.iter().enumerate().map(option).collect::<serde_json::Map<_, _>>(),
    }])
}

fn custom(shown: &Panel) -> Value {
    let has_limits = !matches!(shown.limits, PanelThresholds::Same(_));
    match shown.kind {
        PanelKind::Graph => json!({
            "drawStyle": "line",
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "fillOpacity": if shown.is_stacked { 40 } else { 8 },
            "gradientMode": "none",
            "showPoints": "auto",
            "pointSize": 4,
            "spanNulls": false,
            "axisPlacement": "auto",
            "stacking": { "mode": if shown.is_stacked { "normal" } else { "none" }, "group": "A" },
            "thresholdsStyle": { "mode": if has_limits { "dashed" } else { "off" } },
        }),
        PanelKind::Table => json!({
            "align": "auto",
            "cellOptions": { "type": "auto" },
            "inspect": false,
            "filterable": true,
        }),
        PanelKind::StateTimeline => json!({ "lineWidth": 0, "fillOpacity": 80 }),
        PanelKind::Heatmap => json!({ "scaleDistribution": { "type": "linear" } }),
        PanelKind::Stat | PanelKind::Bars => json!({}),
    }
}

/// The link of each series or row to another dashboard.
fn links(shown: &Panel) -> Value {
    let Some((uid, labels)) = shown.leads_to else { return json!([]) };
    let value = |label: &str| match shown.kind {
        PanelKind::Table => format!("${{__data.fields.{label}:percentencode}}"),
        _ => format!("${{__field.labels.{label}:percentencode}}"),
    };
    let chosen: Vec<String> = labels.iter().map(|label| format!("var-{label}={}", value(label))).collect();
    let title = uid.replace('-', " ");
    json!([{
        "title": format!("Show in {title}"),
        "url": format!("/d/{uid}?${{__url_time_range}}&var-datasource=${{datasource}}&{}", chosen.join("&")),
        "targetBlank": false,
    }])
}
